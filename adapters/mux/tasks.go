package mux

import (
	"bytes"

	"dragoman/adapters/transport"
	"dragoman/proxy/wire"
)

// maxTasks bounds the tasks whose progress is still passed on; the oldest are forgotten.
const maxTasks = 64

// task is a task (2025-11-25 tasks) that a call has begun. The call's progress token is valid until the task ends.
type task struct {
	*transport.Minted        // of the call
	relayed           bool   // it belongs to the one legacy client that the link serves
	id                []byte // raw JSON
	waits             uint64 // the call that waits for the result, on behalf of a client that does not know the task; 0: none
}

// taskBegun notes a call that its result makes a task.
func (x *Mux) taskBegun(c *call, m *wire.Message) {
	if !c.task {
		return
	}
	id := wire.Path(m.Raw, m.Result, "task", "taskId")
	if !id.Present() {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.tasks) == maxTasks {
		x.tasks = append(x.tasks[:0], x.tasks[1:]...)
	}
	x.tasks = append(x.tasks, &task{Minted: c.Apart(), relayed: c.relayed, id: bytes.Clone(id.Of(m.Raw))})
}

// taskAwaited notes a call that may wait for the result of a task on behalf of a client that does not know the task. The caller holds mu.
func (x *Mux) taskAwaited(c *call, m *wire.Message) {
	if len(x.tasks) == 0 || c.relayed || !m.Is("tasks/result") {
		return
	}
	for _, of := range x.tasks {
		if bytes.Equal(of.id, m.Of(m.TaskID)) {
			of.waits = c.n
		}
	}
}

// taskProgress passes on the progress of a task, whose call has ended: to the client of the session, or to the call that waits for the result.
func (x *Mux) taskProgress(m *wire.Message, whole bool) {
	x.mu.Lock()
	var of *task
	for _, one := range x.tasks {
		if bytes.Equal(one.Token, m.Of(m.ProgressToken)) {
			of = one
		}
	}
	var waiting *call
	if of != nil {
		waiting = x.calls[of.waits]
	}
	x.mu.Unlock()
	switch {
	case waiting != nil: // whoever waits knows the client's token
		waiting.put(m, false, whole)
	case of != nil && of.relayed:
		of.Restore(m)
		x.sink.Message(m)
	}
}
