package mutants

import (
	"io"
	"net/http"
	"time"

	"dragoman/conformance/peer"
)

const relatedTask = "io.modelcontextprotocol/related-task"

// legacy answers a request of 2025-11-25 other than tasks/result.
func (s *taskServer) legacy(m peer.Message) (peer.Object, *fault) {
	switch m.Method {
	case "initialize":
		return peer.Object{"protocolVersion": peer.R2511, "serverInfo": peer.Object{"name": "tasks", "version": "1"}, "capabilities": peer.Object{"tools": peer.Object{},
			"tasks": peer.Object{"list": peer.Object{}, "cancel": peer.Object{}, "requests": peer.Object{"tools": peer.Object{"call": peer.Object{}}}}}}, nil
	case "ping":
		return peer.Object{}, nil
	case "tools/list":
		return peer.Object{"tools": tools(false)}, nil
	case "tools/call":
		return s.legacyCall(m)
	case "tasks/list":
		if m.Params()["cursor"] != nil {
			return nil, refuse(-32602)
		}
		list := []any{}
		s.mu.Lock()
		all := append([]*work(nil), s.tasks...)
		s.mu.Unlock()
		for _, t := range all {
			if !t.modern {
				list = append(list, s.tell(t))
			}
		}
		return peer.Object{"tasks": list}, nil
	case "tasks/get":
		if t := s.find(m); t != nil && !t.modern {
			return s.tell(t), nil
		}
		return nil, refuse(-32602)
	case "tasks/cancel":
		t := s.find(m)
		if t == nil || !s.cancel(t) {
			return nil, refuse(-32602)
		}
		return s.tell(t), nil
	}
	return nil, refuse(-32601)
}

func (s *taskServer) cancel(t *work) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.over() {
		return false
	}
	t.cancelled = true
	return true
}

func (s *taskServer) legacyCall(m peer.Message) (peer.Object, *fault) {
	name := peer.Text(m.Params(), "name")
	augmented := m.Params()["task"] != nil
	switch {
	case augmented && name == "greet", !augmented && (name == "task_required" || name == "confirm_delete"):
		return nil, refuse(-32601)
	case augmented:
		// A task begins as working.
		task := s.tell(s.begin(m, false))
		task["status"] = "working"
		return peer.Object{"task": task}, nil
	}
	return content(name), nil
}

// result answers tasks/result at the end of the task. Before, it sends the question of the task.
func (s *taskServer) result(w http.ResponseWriter, r *http.Request, m peer.Message) {
	t := s.find(m)
	if t == nil || t.modern {
		reply(w, m, false, nil, refuse(-32602))
		return
	}
	related := peer.Object{relatedTask: peer.Object{"taskId": t.id}}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(o peer.Object) {
		o["jsonrpc"] = "2.0"
		_, _ = io.WriteString(w, "data: "+peer.Encode(o)+"\n\n")
		_ = http.NewResponseController(w).Flush()
	}
	if s.asks(t) {
		answered := make(chan struct{})
		s.mu.Lock()
		s.waiting["ask-"+t.id] = answered
		s.mu.Unlock()
		asked := question(related)
		asked["id"] = "ask-" + t.id
		send(asked)
		select {
		case <-answered:
		case <-r.Context().Done():
			return
		}
	}
	select {
	case <-time.After(time.Until(t.ends)):
	case <-r.Context().Done():
		return
	}
	result := content(t.tool)
	result["_meta"] = related
	send(peer.Object{"id": m.Object["id"], "result": result})
}

func (s *taskServer) asks(t *work) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.status() == "input_required"
}

// answered handles the answer to a question.
func (s *taskServer) answered(m peer.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, _ := m.Object["id"].(string)
	waits := s.waiting[id]
	if waits == nil {
		return
	}
	delete(s.waiting, id)
	for _, t := range s.tasks {
		t.done = t.done || "ask-"+t.id == id
	}
	close(waits)
}
