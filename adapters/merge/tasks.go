package merge

import (
	"context"
	"crypto/sha256"
	"strings"
	"sync"
	"time"

	"dragoman/adapters/era/seal"
	"dragoman/adapters/era/translate"
	"dragoman/adapters/merge/handles"
	"dragoman/adapters/merge/lists"
	"dragoman/adapters/merge/names"
	"dragoman/adapters/merge/view"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// errTask is the error for tasks that the client does not have.
func errTask() *proxy.Error { return proxy.Errf(proxy.InvalidParams, "params.taskId is unknown") }

// modernTask sends a request about a task to the member that has it (SEP-2663).
func (u *Upstream) modernTask(ex *proxy.Exchange, method string) (proxy.Replies, error) {
	v, m := u.view(ex), &ex.Msg
	if err := tasksDeclared(v, &ex.Client, method); err != nil {
		return nil, err
	}
	server, own, ok := handles.OpenTask(u.opt.Sealer, &ex.Caller, string(m.Text(m.TaskID)))
	if !ok {
		return nil, errTask()
	}
	return u.send(ex, v, view.Destination{Name: names.Name{Server: server, Original: own}, At: m.TaskID, Asked: m.Text(m.TaskID)})
}

// tasksDeclared returns an error unless a modern client, and a member that it sees, declare the extension.
func tasksDeclared(v *view.View, of *proxy.Client, method string) *proxy.Error {
	if len(v.Offer("", "extensions", translate.TasksExtension)) == 0 {
		return notOffered(method)
	}
	if !wire.Path(of.Caps, wire.Whole(of.Caps), "extensions", translate.TasksExtension).Present() {
		return rules.MissingCapability(method, `{"extensions":{"`+translate.TasksExtension+`":{}}}`)
	}
	return nil
}

// handle returns the id by which the client knows a task of the member: that of its request, which it compares, or a new one.
func (c *call) handle(own string) string {
	if c.task == own && own != "" {
		return string(c.asked.Text(c.asked.TaskID))
	}
	return handles.SealTask(c.u.opt.Sealer, &c.ex.Caller, c.member.Name, own)
}

// legacyTask sends a request about a task to the member that has it (2025-11-25 tasks).
func (c *client) legacyTask(ex *proxy.Exchange) (proxy.Replies, error) {
	v, m := c.view(ex.Caller), &ex.Msg
	server, own, ok := handles.Split(string(m.Text(m.TaskID)))
	_, gone := c.u.member(server)
	switch {
	case ok && gone == nil:
		return c.send(ex, v, view.Destination{Name: names.Name{Server: server, Original: own}, At: m.TaskID, Asked: m.Text(m.TaskID)})
	case len(v.Offer(ex.Client.Version, "tasks")) == 0:
		return nil, notOffered(string(m.Text(m.Method)))
	}
	return nil, errTask()
}

// tasksTime bounds how long the members may take to list tasks.
const tasksTime = 5 * time.Second

// listTasks answers tasks/list of a legacy client (2025-11-25 tasks) with the tasks of all members at which it has a session: a page is one
// page of each. A member that fails, or takes longer than tasksTime, is left out, and the result says so.
func (c *client) listTasks(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	cursors, err := c.taskCursors(m)
	if err != nil {
		return nil, err
	}
	seats := c.all()
	pages := make([]handles.TaskPage, 0, len(seats))
	ctx, cancel := context.WithTimeout(ex, tasksTime)
	defer cancel()
	var group sync.WaitGroup
	for _, s := range seats {
		cursor := cursors[s.member.Name]
		if m.Cursor.Present() != (cursor != nil) || !s.can("tasks", "list") {
			continue
		}
		pages = append(pages, handles.TaskPage{Server: s.member.Name})
		p := &pages[len(pages)-1]
		group.Go(func() {
			p.M, p.Err = lists.Ask(ctx, s.session, s.member.Do, ex.Caller, "tasks/list", []wire.Change{{Key: "cursor", Value: cursor}})
		})
	}
	group.Wait()
	switch {
	case ex.Err() != nil:
		return nil, ex.Err()
	case len(pages) == 0 && len(c.view(ex.Caller).Offer(ex.Client.Version, "tasks", "list")) == 0:
		return nil, notOffered("tasks/list")
	}
	return c.tasksResult(m, pages)
}

// tasksResult returns the list of the members' pages.
func (c *client) tasksResult(m *wire.Message, pages []handles.TaskPage) (proxy.Replies, error) {
	tasks, next, late := handles.JoinTasks(m, pages)
	if late != nil && c.u.strict.Load() {
		return nil, proxy.Errf(proxy.Unreachable, "the tasks of these servers cannot be listed: %s", strings.Join(late[:min(len(late), maxNamed)], ", "))
	}
	result := []wire.Change{{Key: "tasks", Value: tasks}}
	if next != nil {
		sealed := c.u.opt.Sealer.Seal(seal.Page, next, c.tasksBinding(), time.Now().Add(c.u.opt.StateTTL))
		result = append(result, wire.Change{Key: "nextCursor", Value: wire.AppendText(nil, sealed)})
	}
	if late != nil {
		result = append(result, wire.Change{Key: "_meta", Value: view.LeftOut(late)})
	}
	return proxy.Reply(proxy.ResultMessage(m.Of(m.ID), wire.Object(result))), nil
}

// tasksBinding binds a cursor of a list of tasks to the client's session.
func (c *client) tasksBinding() [32]byte {
	return sha256.Sum256([]byte("tasks of a merge\x00" + c.session.ID))
}

// taskCursors returns the cursors of the members that the next page of a list of tasks is made of; nil if the request asks for the first.
func (c *client) taskCursors(m *wire.Message) (map[string][]byte, *proxy.Error) {
	if !m.Cursor.Present() {
		return nil, nil
	}
	kind, body, err := c.u.opt.Sealer.Open(string(m.Text(m.Cursor)), c.tasksBinding(), time.Now())
	if err != nil || kind != seal.Page {
		return nil, proxy.Errf(proxy.InvalidParams, "params.cursor is none of this list; list again without it")
	}
	return handles.Cursors(body), nil
}

// runsTask returns an error for a call as a task at a member that offers none, while another does: this one would pass over the wish, and
// the client wait for a task (2025-11-25 tasks, Tool-Level Negotiation).
func (s *seat) runsTask(v *view.View, m *wire.Message) *proxy.Error {
	path := []string{"tasks", "requests", "tools", "call"}
	if !m.Task.Present() || !m.Is("tools/call") || s.can(path...) || len(v.Offer(s.c.session.Client().Version, path...)) == 0 {
		return nil
	}
	return proxy.Errf(proxy.MethodNotFound, "the tool %s does not run as a task; call it without params.task", m.Text(m.Name))
}

// can reports whether the member has declared the capability at a path in this session, which must be open.
func (s *seat) can(path ...string) bool {
	select {
	case <-s.ready:
		return wire.Path(s.caps, wire.Whole(s.caps), path...).Present()
	default:
		return false
	}
}

// publicTask returns the id by which a legacy client knows a task of the member; for one that it runs itself its own.
func (s *seat) publicTask(own string) string {
	if s.c.hosted.Server(own) == s.member.Name {
		return own
	}
	return handles.Join(s.member.Name, own)
}
