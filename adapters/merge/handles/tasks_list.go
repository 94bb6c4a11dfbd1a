package handles

import (
	"dragoman/proxy/wire"
)

// TaskPage is one server's answer to tasks/list.
type TaskPage struct {
	Server string
	M      wire.Message // nothing but a result counts
	Err    error
}

// JoinTasks makes one list of the pages of several servers, which all answer the request asked: tasks is the array, next names the servers
// that have more, each followed by its cursor, nil if there are none, and late are the servers that did not answer.
func JoinTasks(asked *wire.Message, pages []TaskPage) (tasks, next []byte, late []string) {
	tasks, more := []byte{'['}, []byte{'['}
	for i := range pages {
		p := &pages[i]
		m := &p.M
		if p.Err != nil || m.Kind != wire.Result {
			late = append(late, p.Server)
			continue
		}
		PublicTasks(m, asked, func(own string) string { return Join(p.Server, own) })
		for _, task := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, "tasks")) {
			tasks = wire.AppendItem(tasks, m.AppendPart(nil, task))
		}
		if at := wire.Get(m.Raw, m.Result, "nextCursor"); at.IsString(m.Raw) {
			more = wire.AppendItem(wire.AppendItem(more, wire.AppendText(nil, p.Server)), at.Of(m.Raw))
		}
	}
	if len(more) > 1 {
		next = append(more, ']')
	}
	return append(tasks, ']'), next, late
}

// Cursors returns the cursors, as raw JSON, by the servers that next names.
func Cursors(next []byte) map[string][]byte {
	all := map[string][]byte{}
	server := ""
	for i, at := range wire.Items(next, wire.Whole(next)) {
		if i%2 == 0 {
			server = string(at.Text(next))
			continue
		}
		all[server] = at.Of(next)
	}
	return all
}
