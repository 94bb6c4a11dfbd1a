package mutants

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dragoman/conformance/checks"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// The sound server of tasks passes the checks of tasks, and its messages are valid.
func TestSoundTaskServerPasses(t *testing.T) {
	s := startTasks(t)
	for _, face := range []peer.Face{peer.ModernHTTP, peer.LegacyHTTP} {
		t.Run(string(face), func(t *testing.T) {
			t.Parallel()
			passTasks(t, s.target(t, face, nil), face)
		})
	}
}

// passTasks runs the checks of tasks.
func passTasks(t *testing.T, target *peer.Target, face peer.Face) {
	t.Helper()
	areas := []string{"messages", "tasks", "legacy-tasks"}
	list := slices.DeleteFunc(checks.All(), func(c *suite.Check) bool { return !slices.Contains(areas, c.Area()) })
	offers := slices.DeleteFunc(discover(t, target, face), func(o *suite.Offer) bool { return o.Revision < peer.R2511 })
	for _, f := range suite.Run(t.Context(), target, offers, suite.Options{Checks: list, Shape: suite.ServerShape}) {
		if f.Outcome != suite.Passed && f.Check.ID != "legacy-tasks.ignored" { // that is for servers without tasks
			t.Errorf("%s: %s %s", f.Key(), f.Outcome, describe(f))
		}
	}
}

// Behind one endpoint with a server that has no tasks it passes them as well.
func TestTasksOfSeveralServersPass(t *testing.T) {
	file, err := program()
	if err != nil {
		t.Fatal(err)
	}
	for era, faces := range map[string][]peer.Face{"modern": {peer.ModernHTTP}, "legacy": {peer.LegacyHTTP, peer.SSE}} {
		config := filepath.Join(t.TempDir(), "config.json")
		text := peer.Encode(peer.Object{"names": peer.Object{"prefix": "conflict"}, "catalogue": peer.Object{"path": "memory"}, "upstreams": peer.Object{
			"tasks": peer.Object{"url": startTasks(t).base + "/mcp", "era": era}, "demo": peer.Object{"command": []any{file, "demo"}}}})
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := serve(t, file, "--config", config)
		for _, face := range faces {
			t.Run(string(face), func(t *testing.T) { passTasks(t, s.target(t, face, nil), face) })
		}
	}
}

// taskMutants violate the requirements of tasks. They are in front of the sound server of tasks.
func taskMutants() []mutant {
	all := slices.Concat(legacyTaskMutants(), modernTaskMutants())
	for i := range all {
		all[i].tasks = all[i].caught != "legacy-tasks.ignored" // that is for servers without tasks
	}
	return all
}

func legacyTaskMutants() []mutant {
	task := func(method string, change func(x *exchange, task peer.Object)) func(*exchange, peer.Message) []string {
		return results(method, func(x *exchange, r peer.Object) {
			if inner, ok := r["task"].(peer.Object); ok {
				r = inner
			}
			change(x, r)
		})
	}
	related := peer.Object{relatedTask: peer.Object{"taskId": "another"}}
	return []mutant{
		{name: "answers with a task that has ended", caught: "legacy-tasks.created", message: task("tools/call", func(_ *exchange, task peer.Object) { task["status"] = "completed" })},
		{name: "does not wrap its tasks", caught: "legacy-tasks.created", message: results("tools/call", func(_ *exchange, r peer.Object) {
			task, _ := r["task"].(peer.Object)
			delete(r, "task")
			for name, v := range task {
				r[name] = v
			}
		})},
		{name: "has one id for tasks", caught: "legacy-tasks.unique", message: task("tools/call", func(_ *exchange, task peer.Object) { task["taskId"] = "task" })},
		{name: "tells of another task", caught: "legacy-tasks.get", message: task("tasks/get", func(_ *exchange, task peer.Object) { task["taskId"] = "another" })},
		{name: "does not wait for the result", caught: "legacy-tasks.result", request: func(x *exchange) {
			if x.method == "tasks/result" {
				gives(x, `{"content":[]}`)
			}
		}},
		{name: "gives the task for its result", caught: "legacy-tasks.result", message: results("tasks/result", func(_ *exchange, r peer.Object) { delete(r, "content") })},
		{name: "does not say whose result it is", caught: "legacy-tasks.related", message: results("tasks/result", func(_ *exchange, r peer.Object) { delete(r, "_meta") })},
		{name: "says twice whose status it is", caught: "legacy-tasks.unrelated", message: results("tasks/get", func(_ *exchange, r peer.Object) { r["_meta"] = related })},
		{name: "goes on after the end", caught: "legacy-tasks.terminal", message: task("tasks/get", func(x *exchange, task peer.Object) {
			if x.state.count("end") > 1 {
				task["status"] = "failed"
			}
		})},
		{name: "has its own code for unknown tasks", caught: "legacy-tasks.unknown", message: failures("tasks/get", func(_, e peer.Object) { e["code"] = -32001 })},
		{name: "cancels later", caught: "legacy-tasks.cancelled", message: task("tasks/cancel", func(_ *exchange, task peer.Object) { task["status"] = "working" })},
		{name: "completes what was cancelled", caught: "legacy-tasks.cancelled", message: task("tasks/get", func(x *exchange, task peer.Object) {
			if x.state.count("get") > 1 {
				task["status"] = "completed"
			}
		})},
		{name: "cancels what has ended", caught: "legacy-tasks.cancelled-late", request: func(x *exchange) {
			if x.method == "tasks/cancel" {
				gives(x, `{"taskId":"t","status":"cancelled","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":null}`)
			}
		}},
		{name: "lists no tasks", caught: "legacy-tasks.listed", message: results("tasks/list", func(_ *exchange, r peer.Object) { r["tasks"] = []any{} })},
		{name: "takes any cursor of tasks", caught: "legacy-tasks.bad-cursor", request: func(x *exchange) {
			if x.method == "tasks/list" {
				gives(x, `{"tasks":[]}`)
			}
		}},
		{name: "chokes on what it does not know", caught: "legacy-tasks.ignored", request: func(x *exchange) {
			if x.asked.Params()["task"] != nil {
				x.reply(200, "application/json", `{"jsonrpc":"2.0","id":`+string(x.asked.ID)+`,`+invalid+`}`)
			}
		}},
		{name: "makes tasks of all tools", caught: "legacy-tasks.forbidden", request: func(x *exchange) {
			x.body = strings.Replace(x.body, `"greet"`, `"slow_compute"`, 1)
		}},
		{name: "runs without a task what must be one", caught: "legacy-tasks.required", request: func(x *exchange) {
			x.body = strings.Replace(x.body, `"task_required"`, `"slow_compute"`, 1)
		}},
		{name: "calls failures completed", caught: "legacy-tasks.failed", message: task("tasks/get", func(_ *exchange, task peer.Object) { task["status"] = "completed" })},
		{name: "asks for nobody", caught: "legacy-tasks.asks", message: notices("elicitation/create", func(m peer.Message) []string {
			delete(m.Params(), "_meta")
			return []string{peer.Encode(m.Object)}
		})},
	}
}

func modernTaskMutants() []mutant {
	status := func(of string) func(*exchange, peer.Message) []string {
		return results("tasks/get", func(_ *exchange, r peer.Object) { r["status"] = of })
	}
	return []mutant{
		{name: "declares both kinds of tasks", caught: "tasks.one-place", message: results("server/discover", func(_ *exchange, r peer.Object) {
			capabilities, _ := r["capabilities"].(peer.Object)
			capabilities["tasks"] = peer.Object{}
		})},
		{name: "serves who declares nothing", caught: "tasks.undeclared-methods", message: failures("tasks/get", func(_, e peer.Object) { e["code"] = -32602 })},
		{name: "lists tasks still", caught: "tasks.removed", request: func(x *exchange) {
			if x.method == "tasks/list" {
				gives(x, `{"resultType":"complete","tasks":[]}`)
			}
		}},
		{name: "knows all tasks", caught: "tasks.unknown", request: func(x *exchange) {
			if x.method == "tasks/get" {
				gives(x, `{"resultType":"complete","taskId":"dragoman-no-such-task","status":"cancelled","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null}`)
			}
		}},
		{name: "cancels what there is not", caught: "tasks.unknown-others", request: func(x *exchange) {
			if x.method == "tasks/cancel" {
				gives(x, empty)
			}
		}},
		{name: "wraps its tasks", caught: "tasks.created", message: results("tools/call", func(_ *exchange, r peer.Object) { r["task"] = peer.Object{"taskId": r["taskId"]} })},
		{name: "answers before it stores the task", caught: "tasks.created", message: func(x *exchange, m peer.Message) []string {
			if x.method == "tasks/get" && x.state.count("get") == 1 {
				return []string{`{"jsonrpc":"2.0","id":` + string(m.ID) + `,` + invalid + `}`}
			}
			return []string{m.Raw}
		}},
		{name: "makes tasks for everybody", caught: "tasks.undeclared-call", message: results("tools/call", func(_ *exchange, r peer.Object) { r["resultType"], r["taskId"] = "task", "t" })},
		{name: "writes times without a unit", caught: "tasks.legacy-members", message: results("tasks/get", func(_ *exchange, r peer.Object) { r["ttl"] = 1 })},
		{name: "keeps the result to itself", caught: "tasks.completed", message: results("tasks/get", func(_ *exchange, r peer.Object) { delete(r, "result") })},
		{name: "calls what has ended tasks", caught: "tasks.completed", message: results("tasks/get", func(_ *exchange, r peer.Object) { r["resultType"] = "task" })},
		{name: "cancels what is completed", caught: "tasks.terminal", message: results("tasks/get", func(x *exchange, r peer.Object) {
			if x.state.seen("cancelled") {
				r["status"] = "cancelled"
			}
		}), request: func(x *exchange) {
			if x.method == "tasks/cancel" {
				x.state.count("cancelled")
			}
		}},
		{name: "takes failures of tools for its own", caught: "tasks.tool-error", message: status("failed")},
		{name: "completes what has failed", caught: "tasks.failed", message: status("completed")},
		{name: "tells the task when it is cancelled", caught: "tasks.cancel", message: results("tasks/cancel", func(_ *exchange, r peer.Object) { r["status"] = "cancelled" })},
		{name: "does not look at the name of a task", caught: "tasks.header", request: func(x *exchange) {
			if strings.HasPrefix(x.method, "tasks/") {
				x.Header.Set("Mcp-Name", peer.Text(x.asked.Params(), "taskId"))
			}
		}},
		{name: "asks nothing", caught: "tasks.asks", message: results("tasks/get", func(_ *exchange, r peer.Object) { delete(r, "inputRequests") })},
		{name: "tells the task when it is answered", caught: "tasks.asks", message: results("tasks/update", func(_ *exchange, r peer.Object) { r["status"] = "working" })},
		{name: "lets everybody watch tasks", caught: "tasks.listen-undeclared", request: func(x *exchange) {
			if x.method == "subscriptions/listen" {
				edit(x, func(_, _, meta peer.Object) {
					meta[peer.MetaCapabilities] = peer.Object{"extensions": peer.Object{tasksExtension: peer.Object{}}}
				})
			}
		}},
		{name: "tells of other tasks", caught: "tasks.listen", message: notices("notifications/tasks", func(m peer.Message) []string {
			m.Params()["taskId"] = "another"
			return []string{peer.Encode(m.Object)}
		})},
	}
}
