package mutants

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

const tasksExtension = "io.modelcontextprotocol/tasks"

// taskServer is a sound server with the tasks of 2025-11-25 and those of the extension, which the demonstration server does not have. It has
// no sessions.
type taskServer struct {
	mu      sync.Mutex
	tasks   []*work
	waiting map[string]chan struct{} // questions, by id
}

// work is a task. Its status depends on the time.
type work struct {
	id, tool        string
	modern          bool
	made, ends      time.Time
	cancelled, done bool // done: its question was answered
}

// startTasks starts a taskServer.
func startTasks(t *testing.T) *sound {
	t.Helper()
	s := &taskServer{waiting: make(map[string]chan struct{})}
	srv := httptest.NewServer(s)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return &sound{base: srv.URL, offers: make(map[string][]*suite.Offer)}
}

// fault is an error with its HTTP status in 2026-07-28.
type fault struct {
	status, code int
	data         any
}

func refuse(code int) *fault { return &fault{status: http.StatusOK, code: code} }

// ServeHTTP implements http.Handler.
func (s *taskServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	m, err := peer.ReadMessage(string(raw))
	switch {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
		return
	case m.Kind() != peer.IsRequest:
		s.answered(m)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	modern := peer.Text(m.Params(), "_meta", peer.MetaVersion) != ""
	var result peer.Object
	var wrong *fault
	switch {
	case modern && m.Method == "subscriptions/listen":
		if wrong = s.listen(w, r, m); wrong == nil {
			return
		}
	case modern:
		result, wrong = s.modern(r, m)
	case m.Method == "tasks/result":
		s.result(w, r, m)
		return
	default:
		result, wrong = s.legacy(m)
	}
	reply(w, m, modern, result, wrong)
}

func reply(w http.ResponseWriter, m peer.Message, modern bool, result peer.Object, wrong *fault) {
	w.Header().Set("Content-Type", "application/json")
	answer := peer.Object{"jsonrpc": "2.0", "id": m.Object["id"]}
	if wrong == nil {
		answer["result"] = result
	} else {
		e := peer.Object{"code": wrong.code, "message": "refused"}
		if wrong.data != nil {
			e["data"] = wrong.data
		}
		answer["error"] = e
		if modern {
			w.WriteHeader(wrong.status)
		}
	}
	_, _ = io.WriteString(w, peer.Encode(answer))
}

// tools lists the tools of the official suite's fixture, and one that must be a task.
func tools(modern bool) (list []any) {
	for _, x := range [][3]string{{"greet", "name", ""}, {"slow_compute", "seconds", "optional"}, {"failing_job", "", "optional"}, {"protocol_error_job", "", "optional"},
		{"confirm_delete", "filename", "required"}, {"task_required", "", "required"}} {
		properties := peer.Object{}
		if x[1] != "" {
			properties[x[1]] = peer.Object{"type": map[bool]string{true: "number", false: "string"}[x[1] == "seconds"]}
		}
		tool := peer.Object{"name": x[0], "inputSchema": peer.Object{"type": "object", "properties": properties}}
		if x[2] != "" && !modern {
			tool["execution"] = peer.Object{"taskSupport": x[2]}
		}
		list = append(list, tool)
	}
	return list
}

func content(tool string) peer.Object {
	return peer.Object{"content": []any{peer.Object{"type": "text", "text": tool}}, "isError": tool == "failing_job"}
}

// begin creates a task for a call.
func (s *taskServer) begin(m peer.Message, modern bool) *work {
	s.mu.Lock()
	defer s.mu.Unlock()
	seconds, _ := strconv.ParseFloat(fmt.Sprint(peer.Get(m.Params(), "arguments", "seconds")), 64)
	now := time.Now()
	t := &work{id: fmt.Sprintf("task-%d", len(s.tasks)+1), tool: peer.Text(m.Params(), "name"), modern: modern, made: now, ends: now.Add(time.Duration(seconds * float64(time.Second)))}
	s.tasks = append(s.tasks, t)
	return t
}

func (s *taskServer) find(m peer.Message) *work {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tasks {
		if t.id == m.Params()["taskId"] {
			return t
		}
	}
	return nil
}

// status returns the current status; s.mu is held.
func (t *work) status() string {
	switch {
	case t.cancelled:
		return "cancelled"
	case t.tool == "confirm_delete" && !t.done:
		return "input_required"
	case time.Now().Before(t.ends):
		return "working"
	case t.tool == "protocol_error_job", t.tool == "failing_job" && !t.modern:
		return "failed"
	}
	return "completed"
}

func (t *work) over() bool {
	status := t.status()
	return status == "cancelled" || status == "failed" || status == "completed"
}

// tell returns a task in the form of its era.
func (s *taskServer) tell(t *work) peer.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	made := t.made.UTC().Format(time.RFC3339Nano)
	out := peer.Object{"taskId": t.id, "status": t.status(), "createdAt": made, "lastUpdatedAt": made}
	if !t.modern {
		out["ttl"], out["pollInterval"] = 60_000, 20
		return out
	}
	out["resultType"], out["ttlMs"], out["pollIntervalMs"] = "complete", 60_000, 20
	switch out["status"] {
	case "input_required":
		out["inputRequests"] = peer.Object{"sure": question(nil)}
	case "completed":
		out["result"] = content(t.tool)
	case "failed":
		out["error"] = peer.Object{"code": -32603, "message": "it broke"}
	}
	return out
}

func question(meta peer.Object) peer.Object {
	params := peer.Object{"mode": "form", "message": "Sure?",
		"requestedSchema": peer.Object{"type": "object", "properties": peer.Object{"confirm": peer.Object{"type": "boolean"}}}}
	if meta != nil {
		params["_meta"] = meta
	}
	return peer.Object{"method": "elicitation/create", "params": params}
}

// modern answers a request of 2026-07-28.
func (s *taskServer) modern(r *http.Request, m peer.Message) (peer.Object, *fault) {
	me := peer.Object{peer.MetaServer: peer.Object{"name": "tasks", "version": "1"}}
	switch m.Method {
	case "server/discover":
		return peer.Object{"resultType": "complete", "supportedVersions": []any{peer.R2607}, "ttlMs": 0, "cacheScope": "public", "_meta": me,
			"capabilities": peer.Object{"tools": peer.Object{}, "extensions": peer.Object{tasksExtension: peer.Object{}}}}, nil
	case "tools/list":
		return peer.Object{"resultType": "complete", "tools": tools(true), "ttlMs": 0, "cacheScope": "public", "_meta": me}, nil
	case "tools/call":
		if !declares(m) || peer.Text(m.Params(), "name") == "greet" {
			result := content(peer.Text(m.Params(), "name"))
			result["resultType"] = "complete"
			return result, nil
		}
		t := s.begin(m, true)
		result := s.tell(t)
		result["resultType"] = "task"
		for _, name := range []string{"result", "error", "inputRequests"} {
			delete(result, name)
		}
		return result, nil
	case "tasks/get", "tasks/update", "tasks/cancel":
		return s.ofTask(r, m)
	}
	return nil, &fault{status: http.StatusNotFound, code: -32601}
}

func declares(m peer.Message) bool {
	return peer.Get(m.Params(), "_meta", peer.MetaCapabilities, "extensions", tasksExtension) != nil
}

var undeclared = &fault{http.StatusBadRequest, -32021, peer.Object{"requiredCapabilities": peer.Object{"extensions": peer.Object{tasksExtension: peer.Object{}}}}}

func (s *taskServer) ofTask(r *http.Request, m peer.Message) (peer.Object, *fault) {
	if !declares(m) {
		return nil, undeclared
	}
	if r.Header.Get("Mcp-Name") != peer.Text(m.Params(), "taskId") {
		return nil, &fault{status: http.StatusBadRequest, code: -32020}
	}
	t := s.find(m)
	if t == nil {
		return nil, refuse(-32602)
	}
	if m.Method == "tasks/get" {
		return s.tell(t), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Method == "tasks/update" {
		t.done = t.done || peer.Get(m.Params(), "inputResponses", "sure") != nil
	} else if !t.over() {
		t.cancelled = true
	}
	return peer.Object{"resultType": "complete"}, nil
}

// listen answers subscriptions/listen with a notification at the end of each task.
func (s *taskServer) listen(w http.ResponseWriter, r *http.Request, m peer.Message) *fault {
	var watched []*work
	honoured := []any{}
	for _, id := range peer.List(m.Params(), "notifications", "taskIds") {
		if !declares(m) {
			return undeclared
		}
		if t := s.find(peer.Message{Object: peer.Object{"params": peer.Object{"taskId": id}}}); t != nil {
			watched, honoured = append(watched, t), append(honoured, id)
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(method string, params peer.Object) {
		params["_meta"] = peer.Object{peer.MetaSubscription: m.Object["id"]}
		_, _ = io.WriteString(w, "data: "+peer.Encode(peer.Object{"jsonrpc": "2.0", "method": method, "params": params})+"\n\n")
		_ = http.NewResponseController(w).Flush()
	}
	send("notifications/subscriptions/acknowledged", peer.Object{"notifications": peer.Object{"taskIds": honoured}})
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-r.Context().Done():
			return nil
		case <-tick.C:
		}
		var left []*work
		for _, t := range watched {
			task := s.tell(t)
			if status := task["status"]; status == "working" || status == "input_required" {
				left = append(left, t)
				continue
			}
			delete(task, "resultType")
			send("notifications/tasks", task)
		}
		watched = left
	}
}
