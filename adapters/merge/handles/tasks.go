// Package handles translates what the servers of a merge give a client to bring back, which two servers may choose alike: ids of tasks, and of
// questions. A modern client gets a sealed handle, which opens for that client alone. A legacy client, whose session nobody else has, gets the id behind
// the name of the server.
package handles

import (
	"bytes"
	"crypto/sha256"
	"strings"
	"time"

	"dragoman/adapters/era/seal"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// relatedTask is the member of _meta that names the task to which a message belongs (2025-11-25 tasks).
const relatedTask = wire.MetaPrefix + "related-task"

// TaskStatus begins the methods of notifications about tasks, of both eras.
const TaskStatus = "notifications/tasks"

// HasTasks reports whether TaskPlaces may find any in a message. In most there are none.
func HasTasks(m, asked *wire.Message) bool {
	switch {
	case m.Meta.Present() && bytes.Contains(m.Of(m.Meta), []byte(relatedTask)):
		return true
	case m.Kind == wire.Notification:
		return bytes.HasPrefix(m.Text(m.Method), []byte(TaskStatus))
	case m.Kind != wire.Result || asked == nil:
		return false
	}
	return asked.Task.Present() || m.At(m.ResultType, "task") || bytes.HasPrefix(asked.Text(asked.Method), []byte("tasks/"))
}

// TaskPlaces appends where a message of a server has the ids of its tasks. asked is the request that a result answers; nil for others.
func TaskPlaces(dst []wire.Span, m, asked *wire.Message) []wire.Span {
	if !HasTasks(m, asked) {
		return dst
	}
	add := func(at wire.Span) {
		if at.IsString(m.Raw) {
			dst = append(dst, at)
		}
	}
	add(wire.Path(m.Raw, m.Meta, relatedTask, "taskId"))
	switch {
	case m.Kind == wire.Notification && bytes.HasPrefix(m.Text(m.Method), []byte(TaskStatus)):
		add(m.TaskID)
	case m.Kind != wire.Result || asked == nil:
	case m.ResultType.Is(m.Raw, "task"), bytes.HasPrefix(asked.Text(asked.Method), []byte("tasks/")):
		add(wire.Get(m.Raw, m.Result, "taskId"))
		for _, task := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, "tasks")) {
			add(wire.Get(m.Raw, task, "taskId"))
		}
	case asked.Task.Present():
		add(wire.Path(m.Raw, m.Result, "task", "taskId"))
	}
	return dst
}

// PublicTasks replaces the ids of a server's tasks in its message.
func PublicTasks(m, asked *wire.Message, public func(own string) string) {
	for _, at := range TaskPlaces(nil, m, asked) {
		m.Replace(at, wire.AppendText(nil, public(string(at.Text(m.Raw)))))
	}
}

// OwnTask replaces the id of the server's task to which a message of a legacy client belongs.
func OwnTask(m *wire.Message, server string) {
	if !m.Meta.Present() {
		return
	}
	at := wire.Path(m.Raw, m.Meta, relatedTask, "taskId")
	if of, own, ok := Split(string(at.Text(m.Raw))); ok && of == server {
		m.Replace(at, wire.AppendText(nil, own))
	}
}

// Join returns the id by which legacy clients know what a server has given an id.
func Join(server, own string) string { return server + "/" + own }

// Split reverses Join; false if the id is none of its results.
func Split(public string) (server, own string, ok bool) { return strings.Cut(public, "/") }

// taskTime is how long a handle is valid: the server knows when the task ends.
const taskTime = 100 * 365 * 24 * time.Hour

// taskBinding binds a handle to the caller.
func taskBinding(caller *proxy.Caller) [32]byte {
	return sha256.Sum256(caller.Identity().Append([]byte("task of a merge\x00")))
}

// SealTask returns the handle of a server's task for a modern client.
func SealTask(with *seal.Sealer, caller *proxy.Caller, server, own string) string {
	return with.Seal(seal.Task, []byte(server+"\x00"+own), taskBinding(caller), time.Now().Add(taskTime))
}

// OpenTask reverses SealTask; false if the handle is none of the caller's.
func OpenTask(with *seal.Sealer, caller *proxy.Caller, handle string) (server, own string, ok bool) {
	kind, body, err := with.Open(handle, taskBinding(caller), time.Now())
	server, own, ok = strings.Cut(string(body), "\x00")
	return server, own, ok && err == nil && kind == seal.Task
}

// TaskFilter returns the member of a filter of a subscriptions/listen that names tasks (SEP-2663); none if there are none.
func TaskFilter(ids []string) []wire.Change {
	if len(ids) == 0 {
		return nil
	}
	all := []byte{'['}
	for _, id := range ids {
		all = wire.AppendItem(all, wire.AppendText(nil, id))
	}
	return []wire.Change{{Key: "taskIds", Value: append(all, ']')}}
}
