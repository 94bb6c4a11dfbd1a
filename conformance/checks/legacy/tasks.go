package legacy

import (
	"slices"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// needsTasks is the capability of servers that make tasks of calls.
const needsTasks suite.Need = "tasks.requests.tools.call"

// tasksChecks is about the tasks of 2025-11-25, which are experimental: servers that do not declare them are not asked for them.
func tasksChecks() []*suite.Check {
	all := slices.Concat(taskAnswersChecks(), taskStatesChecks(), taskCancelsChecks(), taskToolsChecks(), taskRunsChecks())
	for _, c := range all {
		c.Faces, c.Revisions, c.Page = faces, []string{peer.R2511}, "basic/utilities/tasks §"+c.Page
		if c.ID != "legacy-tasks.ignored" {
			c.Needs = append([]suite.Need{needsTasks}, c.Needs...)
		}
	}
	return all
}

// taskAnswersChecks is about the answers to calls and to the methods of tasks.
func taskAnswersChecks() []*suite.Check {
	return []*suite.Check{
		{
			ID: "legacy-tasks.created", Title: "Answers a task-augmented call with a task that works", Level: suite.Must, Page: "Creating Tasks",
			Statement: "The answer to tools/call with params.task is {task: …}, not the result of the tool; a task begins in the status working.",
			Why:       "The client waits for a result that it was to fetch later, or takes the task for the result.",
			Fix:       "Make the task before the work begins, and answer with it at once.",
			Run:       taskCreated,
		},
		{
			ID: "legacy-tasks.unique", Title: "Gives every task an id of its own", Level: suite.Must, Page: "Task ID Requirements",
			Statement: "taskId is a text that is made by the receiver and unique among its tasks.",
			Why:       "One client reads or cancels the task of another.",
			Fix:       "Make the id of 128 random bits.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				if a, b := beginTask(t, c), beginTask(t, c); a.id == b.id {
					t.Fail("two ids for two tasks", "%s twice", a.id)
				}
			},
		},
		{
			ID: "legacy-tasks.get", Title: "Gives the state of a task", Level: suite.Must, Page: "Getting Tasks",
			Statement: "tasks/get gives the task of params.taskId at any time after its creation.",
			Why:       "The client cannot know when the result is there.",
			Fix:       "Store the task before you answer with its id.",
			Run: func(t *suite.Trial) {
				c, j := openTask(t)
				task := j.now(t, c)
				if peer.Text(task, "taskId") != j.id {
					t.Fail("the task "+j.id, "%s", checkutil.Excerpt(task))
				}
				if at := peer.Text(j.task, "createdAt"); peer.Text(task, "createdAt") != at {
					t.Fail("createdAt "+at+", as it was when the task was made", "%s", checkutil.Excerpt(task))
				}
			},
		},
		{
			ID: "legacy-tasks.result", Title: "Gives the result of the call, once there is one", Level: suite.Must, Page: "Result Retrieval",
			Statement: "tasks/result is answered when the task has reached a terminal status, with exactly what the call would have been answered with.",
			Why:       "The client gets an empty result, or a task where it wants content.",
			Fix:       "Wait for the end of the task before you answer tasks/result; keep the result of the call as it is.",
			Run: func(t *suite.Trial) {
				c, j := openTask(t)
				result := j.result(t, c, "the result of the call")
				if result["content"] == nil {
					t.Fail("a result of tools/call, with content", "%s", checkutil.Excerpt(result))
				}
				if task := j.now(t, c); !checkutil.Terminal(task) {
					t.Fail("a task that has ended when tasks/result is answered", "%s", checkutil.Excerpt(task))
				}
			},
		},
	}
}

// taskStatesChecks is about the status of tasks.
func taskStatesChecks() []*suite.Check {
	return []*suite.Check{
		{
			ID: "legacy-tasks.related", Title: "Names the task in the answer to tasks/result", Level: suite.Must, Page: "Associating Task-Related Messages",
			Statement: "The answer to tasks/result carries _meta[\"" + checkutil.MetaRelated + "\"] with the taskId, for the result itself does not.",
			Why:       "Gateways and logs that relate messages to tasks lose the most important one.",
			Fix:       "Add {\"taskId\": …} under that key to _meta of the result.",
			Run: func(t *suite.Trial) {
				c, j := openTask(t)
				result := j.result(t, c, "the result of the call")
				if peer.Text(result, "_meta", checkutil.MetaRelated, "taskId") != j.id {
					t.Fail("_meta with "+checkutil.MetaRelated+" of the task "+j.id, "%s", checkutil.Excerpt(result))
				}
			},
		},
		{
			ID: "legacy-tasks.unrelated", Title: "Leaves out the related task where taskId names it", Level: suite.Should, Page: "Associating Task-Related Messages",
			Statement: "tasks/get, tasks/list and tasks/cancel and their answers, and notifications/tasks/status, carry no " + checkutil.MetaRelated + ": their taskId names the task.",
			Why:       "Two places can contradict each other.",
			Fix:       "Leave it out of _meta in these.",
			Run:       unrelated,
		},
		{
			ID: "legacy-tasks.terminal", Title: "Leaves a task that has ended as it is", Level: suite.Must, Page: "Task Status Lifecycle",
			Statement: "From completed, failed and cancelled a task goes to no other status.",
			Why:       "Clients stop polling at a terminal status; what comes after it is lost.",
			Fix:       "Refuse every change of a task whose status is terminal.",
			Run:       taskTerminal,
		},
		{
			ID: "legacy-tasks.unknown", Title: "Refuses tasks that it does not know with -32602", Level: suite.Must, Page: "Protocol Errors",
			Statement: "tasks/get, tasks/result and tasks/cancel with an unknown taskId are answered with the error -32602.",
			Why:       "The client keeps polling a task that no longer exists.",
			Fix:       "Answer -32602, and say whether the task has expired if you know.",
			Run: func(t *suite.Trial) {
				methods := []string{"tasks/get", "tasks/result"}
				if t.Offer.Capability("tasks.cancel") {
					methods = append(methods, "tasks/cancel")
				}
				c := t.Open(nil)
				for _, method := range methods {
					checkutil.FailedWith(t, mustRequest(t, c, method, `{"taskId":"dragoman-no-such-task"}`), "the error -32602 for "+method, checkutil.InvalidParams)
				}
			},
		},
	}
}

// taskCancelsChecks is about cancelling and listing tasks.
func taskCancelsChecks() []*suite.Check {
	listed, cancels := []suite.Need{"tasks.list"}, []suite.Need{"tasks.cancel"}
	return []*suite.Check{
		{
			ID: "legacy-tasks.cancelled", Title: "Cancels a task before it says so", Level: suite.Must, Needs: cancels, Page: "Task Cancellation",
			Statement: "tasks/cancel is answered with the task, whose status is cancelled by then, and stays so even if the work goes on.",
			Why:       "The client believes that the work is over, and gets a result later.",
			Fix:       "Set the status first, answer then, and drop what the work still brings.",
			Run:       taskCancelled,
		},
		{
			ID: "legacy-tasks.cancelled-late", Title: "Refuses to cancel what has ended with -32602", Level: suite.Must, Needs: cancels, Page: "Task Cancellation",
			Statement: "tasks/cancel of a task with a terminal status is answered with the error -32602.",
			Why:       "The client takes what was done for undone.",
			Fix:       "Look at the status before you cancel.",
			Run: func(t *suite.Trial) {
				c, j := openTask(t)
				j.wait(t, c)
				checkutil.FailedWith(t, mustRequest(t, c, "tasks/cancel", j.params()), "the error -32602", checkutil.InvalidParams)
			},
		},
		{
			ID: "legacy-tasks.listed", Title: "Lists the task that it has made", Level: suite.Must, Needs: listed, Page: "Task Listing",
			Statement: "A task that tasks/get gives to a client is in one of its pages of tasks/list.",
			Why:       "A client that has lost an id finds nothing to go on with.",
			Fix:       "List from the same store that tasks/get reads, in the same context.",
			Run:       taskListed,
		},
		{
			ID: "legacy-tasks.bad-cursor", Title: "Refuses cursors of tasks that it did not give with -32602", Level: suite.Must, Needs: listed, Page: "Protocol Errors",
			Statement: "tasks/list with an invalid cursor is answered with the error -32602.",
			Why:       "The client reads the first page for ever.",
			Fix:       "Check the cursor, and answer -32602.",
			Run: func(t *suite.Trial) {
				checkutil.FailedWith(t, mustRequest(t, t.Open(nil), "tasks/list", `{"cursor":"dragoman no cursor"}`), "the error -32602", checkutil.InvalidParams)
			},
		},
	}
}

// taskToolsChecks is about the tools that run as tasks.
func taskToolsChecks() []*suite.Check {
	const page = "Tool-Level Negotiation"
	return []*suite.Check{
		{
			ID: "legacy-tasks.ignored", Title: "Serves a call that asks for a task though it does not support tasks", Level: suite.Must, Page: "Task Support and Handling",
			Statement: "A server that does not declare tasks.requests.tools.call ignores params.task, and answers with the result.",
			Why:       "Clients that always ask for tasks cannot call the tool.",
			Fix:       "Ignore members of params that you do not know.",
			Needs:     []suite.Need{suite.NeedsTool("test_simple_text")},
			Run: func(t *suite.Trial) {
				if t.Offer.Capability(string(needsTasks)) {
					t.Skip("the server declares %s", needsTasks)
				}
				result := mustResult(t, t.Open(nil), "tools/call", `{"name":"test_simple_text","arguments":{},"task":{"ttl":60000}}`, "the result of the tool")
				if result["content"] == nil {
					t.Fail("the result of the tool, with content", "%s", checkutil.Excerpt(result))
				}
			},
		},
		{
			ID: "legacy-tasks.forbidden", Title: "Makes no task for a tool that does not support tasks", Level: suite.Should, Page: page,
			Statement: "A task-augmented call of a tool without execution.taskSupport, or with \"forbidden\", is answered with the error -32601.",
			Why:       "The client waits for a task, and gets something else.",
			Fix:       "Look at the tool before you make a task.",
			Run: func(t *suite.Trial) {
				name, arguments := taskTool(t, "", "forbidden")
				m := mustRequest(t, t.Open(nil), "tools/call", peer.Encode(peer.Object{"name": name, "arguments": arguments, "task": peer.Object{}}))
				checkutil.FailedWith(t, m, "the error -32601 for "+name+" as a task", checkutil.MethodNotFound)
			},
		},
		{
			ID: "legacy-tasks.required", Title: "Refuses a tool that must be a task without one with -32601", Level: suite.Must, Page: page,
			Statement: "A call without params.task of a tool with taskSupport \"required\" is answered with the error -32601.",
			Why:       "The call runs for as long as the task would, and the client gives up.",
			Fix:       "Refuse the call.",
			Run: func(t *suite.Trial) {
				name, arguments := taskTool(t, "required")
				checkutil.FailedWith(t, mustRequest(t, t.Open(nil), "tools/call", toolCall(name, arguments, "")), "the error -32601 for "+name+" without a task", checkutil.MethodNotFound)
			},
		},
	}
}

// taskRunsChecks is about the outcome of a tool in a task.
func taskRunsChecks() []*suite.Check {
	return []*suite.Check{
		{
			ID: "legacy-tasks.failed", Title: "Reports a task whose tool has failed as failed, and keeps its result", Level: suite.Should, Needs: []suite.Need{suite.NeedsTool(checkutil.ToolFails)}, Page: "Task Execution Errors",
			Statement: "A task whose tool ends with isError has the status failed; tasks/result still gives that result.",
			Why:       "Clients that look at the status alone take a failure for a success.",
			Fix:       "Look at isError when the tool has ended.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				j := taskOf(t, c, checkutil.ToolFails, peer.Object{})
				result := j.result(t, c, "the result of the call, with isError")
				if result["isError"] != true {
					t.Fail("the result of the call, with isError", "%s", checkutil.Excerpt(result))
				}
				if task := j.now(t, c); peer.Text(task, "status") != "failed" {
					t.Fail("the status failed", "%s", checkutil.Excerpt(task))
				}
			},
		},
		{
			ID: "legacy-tasks.asks", Title: "Names the task in what it asks for it", Level: suite.Must, Needs: []suite.Need{suite.NeedsTool(checkutil.ToolConfirms)}, Page: "Input Required Status",
			Statement: "What a task asks of the client while tasks/result waits carries _meta[\"" + checkutil.MetaRelated + "\"] with its taskId.",
			Why:       "The client does not know for which of its tasks the user is asked.",
			Fix:       "Add the key to params._meta of each request that a task makes.",
			Run:       taskAsks,
		},
	}
}
