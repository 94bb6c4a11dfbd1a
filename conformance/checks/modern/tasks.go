package modern

import (
	"slices"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

const (
	tasksExtension = "io.modelcontextprotocol/tasks"
	pageTasksExt   = "SEP-2663 §"
	// withTasks are the capabilities of a client with the extension and elicitation.
	withTasks = `{"elicitation":{"form":{}},"extensions":{"` + tasksExtension + `":{}}}`
)

// tasksChecks is about the extension that replaced the tasks of 2025-11-25. It runs at servers that declare the extension.
func tasksChecks() []*suite.Check {
	declared := []suite.Need{"extension:" + tasksExtension}
	computes := append(slices.Clone(declared), suite.NeedsTool(checkutil.ToolComputes))
	return slices.Concat([]*suite.Check{
		{
			ID: "tasks.one-place", Title: "Declares tasks as an extension alone", Level: suite.Must, Faces: faces, Needs: declared, Page: pageTasksExt + "Capability Negotiation",
			Statement: "A server with the extension has " + tasksExtension + " in capabilities.extensions, and no capability tasks, which is that of 2025-11-25.",
			Why:       "Clients take it for a server with the tasks of 2025-11-25, which have other messages.",
			Fix:       "Leave capabilities.tasks out of the result of server/discover.",
			Run: func(t *suite.Trial) {
				_, m := mustRequest(t, t.Open(nil), "server/discover", nil)
				if v := peer.Get(m.Result(), "capabilities", "tasks"); v != nil {
					t.Fail("no capability tasks", "%s", checkutil.Excerpt(v))
				}
			},
		},
		{
			ID: "tasks.undeclared-methods", Title: "Refuses clients without the extension with -32021", Level: suite.Must, Faces: faces, Needs: declared, Page: pageTasksExt + "Capability Negotiation",
			Statement: "tasks/get, tasks/update and tasks/cancel of a request that does not declare the extension are answered with the error -32021.",
			Why:       "The client does not know that it has to declare anything, and takes the task for lost.",
			Fix:       "Look at clientCapabilities.extensions of the request before you look for the task.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
					_, m := mustRequest(t, c, method, taskParams(method, "dragoman-no-such-task"))
					checkutil.FailedWith(t, m, "the error "+checkutil.CodeName(checkutil.MissingCapability)+" for "+method, checkutil.MissingCapability)
				}
			},
		},
		{
			ID: "tasks.removed", Title: "Has no tasks/result and no tasks/list", Level: suite.Must, Faces: faces, Needs: declared, Page: pageTasksExt + "Backward Compatibility",
			Statement: "tasks/result and tasks/list, of 2025-11-25, are answered with the error -32601.",
			Why:       "Clients take the server for one of the tasks before; a list would show tasks of others.",
			Fix:       "Remove both methods.",
			Run: func(t *suite.Trial) {
				c := t.Open(capable(withTasks))
				for _, method := range []string{"tasks/result", "tasks/list"} {
					_, m := mustRequest(t, c, method, peer.Object{"taskId": "dragoman-no-such-task"})
					checkutil.FailedWith(t, m, "the error "+checkutil.CodeName(checkutil.MethodNotFound)+" for "+method, checkutil.MethodNotFound)
				}
			},
		},
		{
			ID: "tasks.unknown", Title: "Refuses unknown tasks with -32602", Level: suite.Must, Faces: faces, Needs: declared, Page: pageTasksExt + "Task Polling",
			Statement: "tasks/get with an unknown taskId is answered with the error -32602.",
			Why:       "The client keeps polling a task that no longer exists.",
			Fix:       "Answer -32602 for ids that are not in the store.",
			Run:       func(t *suite.Trial) { unknownTask(t, "tasks/get") },
		},
		{
			ID: "tasks.unknown-others", Title: "Refuses to change tasks that it does not know with -32602", Level: suite.Should, Faces: faces, Needs: declared, Page: pageTasksExt + "Task Cancellation",
			Statement: "tasks/update and tasks/cancel with an unknown taskId should be answered with the error -32602.",
			Why:       "The client believes that its answer was taken, or that the task has ended.",
			Fix:       "Answer -32602 for ids that are not in the store.",
			Run:       func(t *suite.Trial) { unknownTask(t, "tasks/update", "tasks/cancel") },
		},
	}, taskMakesChecks(computes), taskEndsChecks(computes), taskMessageChecks(declared, computes))
}

// taskMakesChecks is about the creation of tasks.
func taskMakesChecks(computes []suite.Need) []*suite.Check {
	return []*suite.Check{
		{
			ID: "tasks.created", Title: "Makes a task that tasks/get finds at once", Level: suite.Must, Faces: faces, Needs: computes, Page: pageTasksExt + "Task Creation",
			Statement: "A call that becomes a task is answered with resultType \"task\" and the members of the task beside it, without a result; tasks/get finds the task from then on.",
			Why:       "Clients look for taskId in the result itself; one that polls at once gets an error.",
			Fix:       "Store the task before you answer. Do not wrap it into task, and leave result, error and inputRequests to tasks/get.",
			Run:       madeTask,
		},
		{
			ID: "tasks.undeclared-call", Title: "Makes no task for a client without the extension", Level: suite.Must, Faces: faces, Needs: computes, Page: pageTasksExt + "Capability Negotiation",
			Statement: "A tools/call that does not declare the extension is answered with its result, or with the error -32021; a capability tasks, of 2025-11-25, declares nothing.",
			Why:       "The client has a result that it cannot read.",
			Fix:       "Look at clientCapabilities.extensions of the request before you make a task.",
			Run: func(t *suite.Trial) {
				for _, capabilities := range []string{`{}`, `{"tasks":{"requests":{"tools":{"call":{}}}}}`} {
					_, m := mustCallTool(t, t.Open(capable(capabilities)), peer.Object{"name": checkutil.ToolComputes, "arguments": computing(t, 0)})
					switch code, _, _ := m.Error(); {
					case m.Failed() && code != checkutil.MissingCapability:
						t.Fail("a result, or the error "+checkutil.CodeName(checkutil.MissingCapability), "%s", checkutil.Failure(m))
					case !m.Failed() && m.Result()["resultType"] != "complete":
						t.Fail("the result of the tool, for a client with the capabilities "+capabilities, "%s", checkutil.Excerpt(m.Result()))
					}
				}
			},
		},
		{
			ID: "tasks.legacy-members", Title: "Writes times with their unit", Level: suite.Must, Faces: faces, Needs: computes, Page: pageTasksExt + "Tasks",
			Statement: "Tasks have ttlMs and pollIntervalMs, and neither ttl nor pollInterval; the result of a task carries no " + checkutil.MetaRelated + ".",
			Why:       "Members of 2025-11-25 are not looked at: the client asks too often, or for too long.",
			Fix:       "Rename them, and leave the key of _meta out.",
			Run:       legacyMembers,
		},
		{
			ID: "tasks.terminal", Title: "Leaves a task that has ended as it is", Level: suite.Should, Faces: faces, Needs: computes, Page: pageTasksExt + "Task Status",
			Statement: "From completed, failed and cancelled a task goes to no other status, whatever is asked of it.",
			Why:       "Clients stop polling at a terminal status; what comes after it is lost.",
			Fix:       "Refuse every change of a task whose status is terminal.",
			Run: func(t *suite.Trial) {
				c := t.Open(capable(withTasks))
				id := makeTask(t, c, checkutil.ToolComputes, computing(t, checkutil.TaskTime))
				before := pollTask(t, c, id, checkutil.Terminal)
				_, _ = mustRequest(t, c, "tasks/cancel", taskParams("tasks/cancel", id))
				if after := getTask(t, c, id); peer.Text(after, "status") != peer.Text(before, "status") {
					t.Fail("the status "+peer.Text(before, "status")+", as it was", "%s", checkutil.Excerpt(after))
				}
			},
		},
	}
}

// taskEndsChecks is about the end of tasks.
func taskEndsChecks(computes []suite.Need) []*suite.Check {
	return []*suite.Check{
		{
			ID: "tasks.completed", Title: "Gives the result with the task", Level: suite.Must, Faces: faces, Needs: computes, Page: pageTasksExt + "Task Polling",
			Statement: "tasks/get of a completed task has resultType \"complete\", and the result of the call as result.",
			Why:       "There is no other way to the result.",
			Fix:       "Put the result of the tool into result of the answer to tasks/get.",
			Run: func(t *suite.Trial) {
				c := t.Open(capable(withTasks))
				task := pollTask(t, c, makeTask(t, c, checkutil.ToolComputes, computing(t, checkutil.TaskTime)), checkutil.Terminal)
				if peer.Text(task, "status") != "completed" || peer.Get(task, "result", "content") == nil || task["resultType"] != "complete" {
					t.Fail("resultType complete, the status completed, and result with content", "%s", checkutil.Excerpt(task))
				}
			},
		},
		{
			ID: "tasks.tool-error", Title: "Reports a task whose tool has failed as completed", Level: suite.Must, Faces: faces, Needs: append(slices.Clone(computes), suite.NeedsTool(checkutil.ToolFails)), Page: pageTasksExt + "Task Status",
			Statement: "A task whose tool ends with isError is completed, with that result.",
			Why:       "The model does not get to see what went wrong.",
			Fix:       "Keep failed for errors of JSON-RPC.",
			Run: func(t *suite.Trial) {
				c := t.Open(capable(withTasks))
				task := pollTask(t, c, makeTask(t, c, checkutil.ToolFails, peer.Object{}), checkutil.Terminal)
				if peer.Text(task, "status") != "completed" || peer.Get(task, "result", "isError") != true {
					t.Fail("the status completed, and a result with isError", "%s", checkutil.Excerpt(task))
				}
			},
		},
		{
			ID: "tasks.failed", Title: "Gives the error with a task that has failed", Level: suite.Must, Faces: faces, Needs: append(slices.Clone(computes), suite.NeedsTool(checkutil.ToolBreaks)), Page: pageTasksExt + "Task Status",
			Statement: "A task whose call would have been answered with a JSON-RPC error is failed, with that error, and has no result.",
			Why:       "The client cannot tell its user what happened.",
			Fix:       "Put code and message into error of the answer to tasks/get.",
			Run: func(t *suite.Trial) {
				c := t.Open(capable(withTasks))
				task := pollTask(t, c, makeTask(t, c, checkutil.ToolBreaks, peer.Object{}), checkutil.Terminal)
				if peer.Text(task, "status") != "failed" || peer.Get(task, "error", "code") == nil || task["result"] != nil {
					t.Fail("the status failed, and an error, without a result", "%s", checkutil.Excerpt(task))
				}
			},
		},
		{
			ID: "tasks.cancel", Title: "Acknowledges that a task is to be cancelled", Level: suite.Must, Faces: faces, Needs: computes, Page: pageTasksExt + "Task Cancellation",
			Statement: "tasks/cancel is answered with resultType \"complete\" and no member of a task, whether the task runs or has ended.",
			Why:       "Whether the task is cancelled tasks/get says; a status here is read as final.",
			Fix:       "Answer {\"resultType\":\"complete\"}, and cancel what can be cancelled.",
			Run: func(t *suite.Trial) {
				c := t.Open(capable(withTasks))
				id := makeTask(t, c, checkutil.ToolComputes, computing(t, checkutil.TaskTime))
				for _, state := range []string{"that runs", "that has ended"} {
					acknowledgesTask(t, c, "tasks/cancel", taskParams("tasks/cancel", id), "a task "+state)
					pollTask(t, c, id, checkutil.Terminal)
				}
			},
		},
	}
}

// taskMessageChecks covers heads, questions and subscriptions.
func taskMessageChecks(declared, computes []suite.Need) []*suite.Check {
	confirms := append(slices.Clone(declared), suite.NeedsTool(checkutil.ToolConfirms))
	return []*suite.Check{
		{
			ID: "tasks.header", Title: "Compares Mcp-Name with the task", Level: suite.Must, Faces: httpFace, Needs: computes, Page: pageTasksExt + "Streamable HTTP: Routing Headers",
			Statement: "Mcp-Name repeats params.taskId in the head of tasks/get, tasks/update and tasks/cancel; one that differs is refused with status 400 and the error -32020.",
			Why:       "A proxy that routes by the head sends the request to a server without the task.",
			Fix:       "Check Mcp-Name of these methods as of tools/call.",
			Run: func(t *suite.Trial) {
				id := makeTask(t, t.Open(capable(withTasks)), checkutil.ToolComputes, computing(t, checkutil.TaskTime))
				k := newRawClient(t)
				ask := func(name string) reply {
					return k.request("1", "tasks/get", taskParams("tasks/get", id), declaresTasks, peer.Field{Name: "Mcp-Name", Value: name})
				}
				k.accept(ask(id), "the task, for a head that is right")
				k.refuse(ask("dragoman-another-task"), 400, checkutil.HeaderMismatch)
			},
		},
		{
			ID: "tasks.asks", Title: "Asks through the task, and takes the answer", Level: suite.Must, Faces: faces, Needs: confirms, Page: pageTasksExt + "Task Update Requests",
			Statement: "A task that waits for the client is input_required, with inputRequests in tasks/get; tasks/update with the answers is acknowledged with resultType \"complete\", and the task goes on.",
			Why:       "The task waits for ever.",
			Fix:       "Give the questions keys, keep them with the task, and go on when each has its answer.",
			Run:       taskAsks,
		},
		{
			ID: "tasks.listen-undeclared", Title: "Refuses subscriptions to tasks without the extension with -32021", Level: suite.Must, Faces: faces, Needs: declared, Page: pageTasksExt + "Task Status Notifications",
			Statement: "subscriptions/listen with taskIds of a request that does not declare the extension is answered with the error -32021.",
			Why:       "The client waits for notifications that never come, or cannot be read.",
			Fix:       "Look at clientCapabilities.extensions before you acknowledge.",
			Run: func(t *suite.Trial) {
				call := mustStart(t, t.Open(nil), "subscriptions/listen", peer.Object{"notifications": peer.Object{"taskIds": []any{"dragoman-no-such-task"}}})
				m, err := call.WaitFor(func(m peer.Message) bool {
					return m.Kind() == peer.IsResponse || m.Method == "notifications/subscriptions/acknowledged"
				})
				switch code, _, _ := m.Error(); {
				case err != nil:
					t.Fail("the error "+checkutil.CodeName(checkutil.MissingCapability), "%v", err)
				case code == checkutil.MethodNotFound:
					t.Skip("the server has no subscriptions/listen")
				default:
					checkutil.FailedWith(t, m, "the error "+checkutil.CodeName(checkutil.MissingCapability), checkutil.MissingCapability)
				}
			},
		},
		{
			ID: "tasks.listen", Title: "Reports only the tasks that are watched", Level: suite.Must, Faces: faces, Needs: computes, Page: pageTasksExt + "Task Status Notifications",
			Statement: "The acknowledgement of a subscription names those of the taskIds that are honoured, and no others; notifications/tasks tells of these alone.",
			Why:       "The client does not know which tasks it has still to ask after, and learns of those of others.",
			Fix:       "Answer with the taskIds that you will report, and send the subscription nothing else.",
			Run:       tasksWatched,
		},
	}
}
