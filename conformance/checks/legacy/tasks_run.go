package legacy

import (
	"slices"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// job is a task of 2025-11-25.
type job struct {
	id   string
	task peer.Object // as it was made
}

// params returns params that name the task.
func (j job) params() string { return `{"taskId":` + peer.Encode(j.id) + `}` }

// now returns the answer to tasks/get.
func (j job) now(t *suite.Trial, c *peer.Conn) peer.Object {
	return mustResult(t, c, "tasks/get", j.params(), "the task "+j.id)
}

// result returns the answer to tasks/result, a result.
func (j job) result(t *suite.Trial, c *peer.Conn, expected string) peer.Object {
	return mustResult(t, c, "tasks/result", j.params(), expected)
}

// wait waits for any answer to tasks/result, so for the end of the task.
func (j job) wait(t *suite.Trial, c *peer.Conn) { _ = mustRequest(t, c, "tasks/result", j.params()) }

// taskTool returns a tool with such a taskSupport that is safe to call, and arguments for it. "" stands for a tool without taskSupport. The
// trial is skipped if there is no such tool.
func taskTool(t *suite.Trial, support ...string) (name string, arguments peer.Object) {
	fixture := []string{checkutil.ToolComputes, "task_optional", "task_required", "simulate-research-query", "greet"}
	for _, tool := range t.Offer.Tools {
		name := peer.Text(tool, "name")
		if !slices.Contains(support, peer.Text(tool, "execution", "taskSupport")) || !slices.Contains(fixture, name) && !checkutil.OnlyReads(t, tool) {
			continue
		}
		arguments := checkutil.Sample(tool["inputSchema"])
		properties, _ := peer.Get(tool, "inputSchema", "properties").(peer.Object)
		if properties["ms"] != nil {
			arguments["ms"] = checkutil.TaskTime.Milliseconds()
		}
		switch peer.Text(properties, "seconds", "type") {
		case "number":
			arguments["seconds"] = checkutil.TaskTime.Seconds()
		case "integer":
			arguments["seconds"] = 1
		}
		return name, arguments
	}
	t.Skip("no tool with the taskSupport %q says that it only reads (readOnlyHint), nor is one of the fixture's", support)
	return "", nil
}

// openTask opens a session and begins a task in it.
func openTask(t *suite.Trial) (*peer.Conn, job) {
	c := t.Open(nil)
	return c, beginTask(t, c)
}

// beginTask begins a task that takes a moment. If the server makes none, the trial is broken: that is for another check.
func beginTask(t *suite.Trial, c *peer.Conn) job {
	name, arguments := taskTool(t, "optional", "required")
	return taskOf(t, c, name, arguments)
}

func taskOf(t *suite.Trial, c *peer.Conn, tool string, arguments peer.Object) job {
	m := mustRequest(t, c, "tools/call", augmented(tool, arguments))
	task, _ := m.Result()["task"].(peer.Object)
	if peer.Text(task, "taskId") == "" {
		t.Break("no task was made of %s: %s", tool, m.Raw)
	}
	return job{peer.Text(task, "taskId"), task}
}

func augmented(tool string, arguments peer.Object) string {
	return peer.Encode(peer.Object{"name": tool, "arguments": arguments, "task": peer.Object{"ttl": 60_000}})
}

func taskCreated(t *suite.Trial) {
	name, arguments := taskTool(t, "optional", "required")
	result := mustResult(t, t.Open(nil), "tools/call", augmented(name, arguments), "a result with a task")
	task, _ := result["task"].(peer.Object)
	switch {
	case peer.Text(task, "taskId") == "":
		t.Fail("a task with a taskId", "%s", checkutil.Excerpt(result))
	case result["content"] != nil:
		t.Fail("the task alone, without a result of the tool", "%s", checkutil.Excerpt(result))
	case peer.Text(task, "status") != "working":
		t.Fail("the status working", "%s", checkutil.Excerpt(task))
	}
}

func unrelated(t *suite.Trial) {
	c, j := openTask(t)
	none := func(what string, in any) {
		if peer.Get(in, "_meta", checkutil.MetaRelated) != nil {
			t.Fail("no "+checkutil.MetaRelated+" in _meta of "+what, "%s", checkutil.Excerpt(in))
		}
	}
	none("the answer to tasks/get", j.now(t, c))
	if t.Offer.Capability("tasks.list") {
		none("the answer to tasks/list", mustResult(t, c, "tasks/list", "", "the tasks"))
	}
	j.wait(t, c)
	waitSettled(t, c)
	for _, m := range checkutil.OfMethod(c.Others(), "notifications/tasks/status") {
		none(m.Method, m.Params())
	}
}

func taskTerminal(t *suite.Trial) {
	c, j := openTask(t)
	j.wait(t, c)
	before := j.now(t, c)
	if !checkutil.Terminal(before) {
		t.Fatal("a terminal status after the result", "%s", checkutil.Excerpt(before))
	}
	if t.Offer.Capability("tasks.cancel") {
		_ = mustRequest(t, c, "tasks/cancel", j.params())
	}
	j.wait(t, c)
	if after := j.now(t, c); peer.Text(after, "status") != peer.Text(before, "status") {
		t.Fail("the status "+peer.Text(before, "status")+", as it was", "%s", checkutil.Excerpt(after))
	}
}

func taskCancelled(t *suite.Trial) {
	c, j := openTask(t)
	const expected = "the task with the status cancelled"
	if task := mustResult(t, c, "tasks/cancel", j.params(), expected); peer.Text(task, "status") != "cancelled" || peer.Text(task, "taskId") != j.id {
		t.Fatal(expected, "%s", checkutil.Excerpt(task))
	}
	j.stays(t, c)
	beginTask(t, c).wait(t, c) // the work, which has begun before that of this task, would be over then
	j.stays(t, c)
}

// stays fails the trial unless a cancelled task is still cancelled, or forgotten.
func (j job) stays(t *suite.Trial, c *peer.Conn) {
	m := mustRequest(t, c, "tasks/get", j.params())
	if code, _, _ := m.Error(); code == checkutil.InvalidParams {
		return
	}
	if peer.Text(m.Result(), "status") != "cancelled" {
		t.Fatal("the status cancelled in tasks/get, for good", "%s", m.Raw)
	}
}

// maxTaskPages is the maximum number of pages of tasks that are read.
const maxTaskPages = 50

func taskListed(t *suite.Trial) {
	c, j := openTask(t)
	params := ""
	for range maxTaskPages {
		result := mustResult(t, c, "tasks/list", params, "a list of tasks")
		if slices.ContainsFunc(peer.List(result, "tasks"), func(task any) bool { return peer.Text(task, "taskId") == j.id }) {
			return
		}
		cursor, more := result["nextCursor"].(string)
		if !more {
			t.Fatal("the task "+j.id+" in a page", "the last page without it: %s", checkutil.Excerpt(result))
		}
		params = peer.Encode(peer.Object{"cursor": cursor})
	}
	t.Skip("the server has more than %d pages of tasks", maxTaskPages)
}

func taskAsks(t *suite.Trial) {
	u := &responder{says: map[string]string{"elicitation/create": `"result":{"action":"accept","content":{"confirm":true,"name":"a"}}`}}
	c := t.Open(u.with(`{"elicitation":{"form":{}}}`))
	tool := t.Offer.Tool(checkutil.ToolConfirms)
	if !slices.Contains([]string{"optional", "required"}, peer.Text(tool, "execution", "taskSupport")) {
		t.Skip("%s cannot run as a task", checkutil.ToolConfirms)
	}
	j := taskOf(t, c, checkutil.ToolConfirms, checkutil.Sample(tool["inputSchema"]))
	result := j.result(t, c, "the result of the call, after the question was answered")
	if result["content"] == nil {
		t.Fail("a result with content", "%s", checkutil.Excerpt(result))
	}
	asked := u.questions("elicitation/create")
	if len(asked) == 0 {
		t.Fatal("a question while tasks/result waits", "none")
	}
	for _, m := range asked {
		if peer.Text(m.Params(), "_meta", checkutil.MetaRelated, "taskId") != j.id {
			t.Fail("_meta with "+checkutil.MetaRelated+" of the task "+j.id, "%s", m.Raw)
		}
	}
}
