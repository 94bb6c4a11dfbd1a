package modern

import (
	"slices"
	"time"

	"github.com/goccy/go-json"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// taskParams returns the params of a method of tasks.
func taskParams(method, id string) peer.Object {
	params := peer.Object{"taskId": id}
	if method == "tasks/update" {
		params["inputResponses"] = peer.Object{}
	}
	return params
}

// declaresTasks declares the extension in _meta.
func declaresTasks(meta peer.Object) {
	meta[peer.MetaCapabilities] = peer.Object{"extensions": peer.Object{tasksExtension: peer.Object{}}}
}

// computing returns arguments with which the fixture's tool takes a time.
func computing(t *suite.Trial, d time.Duration) peer.Object {
	arguments := peer.Object{"seconds": d.Seconds(), "label": "dragoman"}
	if peer.Text(t.Offer.Tool(checkutil.ToolComputes), "inputSchema", "properties", "seconds", "type") == "integer" {
		arguments["seconds"] = int((d + time.Second - 1) / time.Second)
	}
	return arguments
}

// makeTask calls a tool and returns the id of its task. The trial is skipped if the server makes no task, as it may decide.
func makeTask(t *suite.Trial, c *peer.Conn, tool string, arguments peer.Object) string {
	_, m := mustCallTool(t, c, peer.Object{"name": tool, "arguments": arguments})
	if m.Result()["resultType"] != "task" {
		t.Skip("the server made no task of %s", tool)
	}
	id := peer.Text(m.Result(), "taskId")
	if id == "" {
		t.Break("the task of %s has no taskId: %s", tool, m.Raw)
	}
	return id
}

func getTask(t *suite.Trial, c *peer.Conn, id string) peer.Object {
	_, m := mustRequest(t, c, "tasks/get", taskParams("tasks/get", id))
	if m.Result() == nil {
		t.Fatal("the task "+id, "%s", m.Raw)
	}
	return m.Result()
}

// pollTask polls a task until it is as wanted. The trial fails if it is not in time.
func pollTask(t *suite.Trial, c *peer.Conn, id string, wanted func(task peer.Object) bool) peer.Object {
	end := time.Now().Add(2 * t.Target.Patience())
	for {
		task := getTask(t, c, id)
		if wanted(task) {
			return task
		}
		if time.Now().After(end) || t.Context().Err() != nil {
			t.Fatal("a task that comes to its end", "%s", checkutil.Excerpt(task))
		}
		every := 50 * time.Millisecond
		if n, ok := task["pollIntervalMs"].(json.Number); ok {
			if ms, err := n.Int64(); err == nil && ms > 0 {
				every = min(max(every, time.Duration(ms)*time.Millisecond), time.Second)
			}
		}
		checkutil.Pause(t, every)
	}
}

func unknownTask(t *suite.Trial, methods ...string) {
	c := t.Open(capable(withTasks))
	for _, method := range methods {
		_, m := mustRequest(t, c, method, taskParams(method, "dragoman-no-such-task"))
		checkutil.FailedWith(t, m, "the error "+checkutil.CodeName(checkutil.InvalidParams)+" for "+method, checkutil.InvalidParams)
	}
}

func madeTask(t *suite.Trial) {
	c := t.Open(capable(withTasks))
	_, m := mustCallTool(t, c, peer.Object{"name": checkutil.ToolComputes, "arguments": computing(t, checkutil.TaskTime)})
	r := m.Result()
	if r["resultType"] == "complete" {
		t.Skip("the server made no task of %s", checkutil.ToolComputes)
	}
	id := peer.Text(r, "taskId")
	if r["resultType"] != "task" || id == "" {
		t.Fatal(`resultType "task" with a taskId`, "%s", checkutil.Excerpt(m.Object))
	}
	for _, member := range []string{"task", "result", "error", "inputRequests", "requestState"} {
		if _, there := r[member]; there {
			t.Fail("no member "+member+" in a result of resultType task", "%s", checkutil.Excerpt(r))
		}
	}
	if task := getTask(t, c, id); peer.Text(task, "taskId") != id {
		t.Fail("the task "+id+" from tasks/get, at once", "%s", checkutil.Excerpt(task))
	}
}

func legacyMembers(t *suite.Trial) {
	c := t.Open(capable(withTasks))
	_, m := mustCallTool(t, c, peer.Object{"name": checkutil.ToolComputes, "arguments": computing(t, checkutil.TaskTime)})
	id := peer.Text(m.Result(), "taskId")
	if id == "" {
		t.Skip("the server made no task of %s", checkutil.ToolComputes)
	}
	last := pollTask(t, c, id, checkutil.Terminal)
	for _, task := range []peer.Object{m.Result(), last} {
		for _, member := range []string{"ttl", "pollInterval"} {
			if _, there := task[member]; there {
				t.Fail("no member "+member, "%s", checkutil.Excerpt(task))
			}
		}
	}
	if peer.Get(last, "result", "_meta", checkutil.MetaRelated) != nil {
		t.Fail("no "+checkutil.MetaRelated+" in _meta of the result", "%s", checkutil.Excerpt(last))
	}
}

// acknowledgesTask fails the trial unless the answer has no members of the task.
func acknowledgesTask(t *suite.Trial, c *peer.Conn, method string, params peer.Object, what string) {
	_, m := mustRequest(t, c, method, params)
	r := m.Result()
	if r["resultType"] != "complete" || slices.ContainsFunc([]string{"taskId", "status", "result", "inputRequests"}, func(name string) bool { return r[name] != nil }) {
		t.Fail(`{"resultType":"complete"} for `+method+" of "+what, "%s", checkutil.Excerpt(m.Object))
	}
}

func taskAsks(t *suite.Trial) {
	c := t.Open(capable(withTasks))
	id := makeTask(t, c, checkutil.ToolConfirms, checkutil.Sample(t.Offer.Tool(checkutil.ToolConfirms)["inputSchema"]))
	asking := func(task peer.Object) bool { return peer.Text(task, "status") == "input_required" }
	task := pollTask(t, c, id, func(task peer.Object) bool { return asking(task) || checkutil.Terminal(task) })
	questions, _ := task["inputRequests"].(peer.Object)
	if !asking(task) || len(questions) == 0 {
		t.Fatal("the status input_required, with inputRequests", "%s", checkutil.Excerpt(task))
	}
	acknowledgesTask(t, c, "tasks/update", peer.Object{"taskId": id, "inputResponses": answersTo(questions)}, "answers to all that it asks")
	if task = pollTask(t, c, id, checkutil.Terminal); peer.Text(task, "status") != "completed" {
		t.Fail("a task that is completed after the answer", "%s", checkutil.Excerpt(task))
	}
}

func tasksWatched(t *suite.Trial) {
	c, r := openRecorded(t, capable(withTasks))
	other, id := makeTask(t, c, checkutil.ToolComputes, computing(t, checkutil.TaskTime)), makeTask(t, c, checkutil.ToolComputes, computing(t, 2*checkutil.TaskTime))
	l := listens(t, c, r, `"tasks"`, peer.Object{"taskIds": []any{id}})
	honoured := peer.List(l.ack.Params(), "notifications", "taskIds")
	if slices.ContainsFunc(honoured, func(x any) bool { return x != id }) {
		t.Fail("none but "+id+" in the acknowledgement", "%s", l.ack.Raw)
	}
	for _, task := range []string{other, id} {
		pollTask(t, c, task, checkutil.Terminal)
	}
	foreign := func(m peer.Message) bool {
		return m.Method == "notifications/tasks" && (m.Params()["taskId"] != id || len(honoured) == 0)
	}
	if len(honoured) > 0 { // the other task has ended first: its notification would come before that of the end of this one
		_, _ = l.wait(func(m peer.Message) bool {
			return foreign(m) || m.Method == "notifications/tasks" && l.receives(m) && checkutil.Terminal(m.Params())
		})
	} else {
		checkutil.Pause(t, unorderedTime)
	}
	for _, m := range l.got() {
		if foreign(m) {
			t.Fail("notifications/tasks of the honoured tasks alone", "%s", m.Raw)
		}
	}
}
