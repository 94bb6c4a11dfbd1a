package handles

import (
	"sync"

	"dragoman/proxy/wire"
)

// Bounds of the tasks of a client that are remembered. The oldest are forgotten; one with a longer id, in bytes, is not remembered.
const (
	maxHosted   = 1024
	maxHostedID = 1024
)

// Hosted remembers which server has begun the tasks that run at a legacy client (2025-11-25 tasks: questions that are answered later). To
// the client all servers are one, so that nothing but this keeps a server from the tasks of others. The zero value is ready for use. It is
// safe for concurrent use.
type Hosted struct {
	mu    sync.Mutex
	of    map[string]string
	order []string
}

// Server returns the server that has begun a task; empty if it is not known.
func (h *Hosted) Server(id string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.of[id]
}

func (h *Hosted) add(id, server string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(id) > maxHostedID || h.of[id] != "" { // an id given twice is the client's mistake, and the task stays whose it was
		return
	}
	if h.of == nil {
		h.of = map[string]string{}
	}
	if len(h.order) == maxHosted {
		delete(h.of, h.order[0])
		h.order = h.order[1:]
	}
	h.of[id], h.order = server, append(h.order, id)
}

// Allows reports whether a server may send the client a request: one about a task that it has not begun it may not.
func (h *Hosted) Allows(m *wire.Message, server string) bool {
	switch {
	case m.Is("tasks/get"), m.Is("tasks/result"), m.Is("tasks/cancel"):
		return h.Server(string(m.Text(m.TaskID))) == server
	}
	return true
}

// Answered returns what the client's answer to a request of a server needs: it notes the task that the answer begins, or leaves the tasks of
// other servers out of a list. asked is the method; began means that the request asked for a task.
func (h *Hosted) Answered(answer *wire.Message, asked string, began bool, server string) {
	if id := wire.Path(answer.Raw, answer.Result, "task", "taskId"); began && id.IsString(answer.Raw) {
		h.add(string(id.Text(answer.Raw)), server)
	}
	if at := wire.Get(answer.Raw, answer.Result, "tasks"); asked == "tasks/list" && at.Present() {
		own := []byte{'['}
		for _, task := range wire.Items(answer.Raw, at) {
			if h.Server(string(wire.Get(answer.Raw, task, "taskId").Text(answer.Raw))) == server {
				own = wire.AppendItem(own, task.Of(answer.Raw))
			}
		}
		answer.Replace(at, append(own, ']'))
	}
}
