package mux

import (
	"bytes"

	"dragoman/adapters/transport"
	"dragoman/proxy/wire"
)

// maxTasks bounds the tasks whose progress is still passed on; the oldest are forgotten.
const maxTasks = 64

// taskBegun notes a call that its result makes a task: its progress token counts until the task ends (2025-11-25 tasks).
func (x *Mux) taskBegun(c *call, m *wire.Message) {
	if !c.task || !wire.Path(m.Raw, m.Result, "task", "taskId").Present() {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.tasks) == maxTasks {
		x.tasks = append(x.tasks[:0], x.tasks[1:]...)
	}
	x.tasks = append(x.tasks, c.Apart())
}

// taskProgress passes the progress of a task on to the client of the session, whose call has ended.
func (x *Mux) taskProgress(m *wire.Message) {
	x.mu.Lock()
	var of *transport.Minted
	for _, task := range x.tasks {
		if bytes.Equal(task.Token, m.Of(m.ProgressToken)) {
			of = task
		}
	}
	x.mu.Unlock()
	if of != nil {
		of.Restore(m)
		x.sink.Message(m)
	}
}
