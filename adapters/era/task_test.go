package era

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/adapters/era/sessions"
	"dragoman/proxy"
)

// taskRig runs a test with a server of an era, over each kind of link, with tasks driven or hidden.
func taskRig(t *testing.T, era proxy.Era, drive bool, f func(t *testing.T, r *serverRig)) {
	t.Helper()
	caps := `{"tools":{},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}}`
	if era == proxy.Modern {
		caps = `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{}}}`
	}
	for _, process := range []bool{false, true} {
		t.Run(map[bool]string{false: "http", true: "stdio"}[process], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScriptedServer(caps)
				s.era = era
				s.tools = `{"name":"long","execution":{"taskSupport":"required"}},{"name":"maybe","execution":{"taskSupport":"optional"}},{"name":"short"}`
				r := newServerRig(t, s, process, func(o *Options) { o.DriveTasks = drive })
				f(t, r)
				r.close()
			})
		})
	}
}

// after makes the server answer a method with the given results, or, if they begin with an error's code, errors, in turn;
// the last for all further ones.
func (s *scriptedServer) answers(method string, results ...string) {
	s.set(func() {
		n := 0
		s.on[method] = func(c *scriptedCall) {
			result := results[min(n, len(results)-1)]
			n++
			if strings.HasPrefix(result, "-") {
				c.send(`{"jsonrpc":"2.0","id":$ID,"error":{"code":` + result + `,"message":"no"}}`)
				return
			}
			c.result(result)
		}
	})
}

// stateOf returns a result of tasks/get.
func stateOf(status, more string) string {
	return `{"resultType":"complete","taskId":"t/1","status":"` + status + `","createdAt":"2026-07-28T00:00:00Z","lastUpdatedAt":"2026-07-28T00:00:00Z","ttlMs":null` + more + `}`
}

const madeTask = `{"resultType":"task","taskId":"t/1","status":"working","createdAt":"2026-07-28T00:00:00Z","lastUpdatedAt":"2026-07-28T00:00:00Z","ttlMs":null,"pollIntervalMs":2000}`

// serverReceivedBriefly checks what the server received, without envelopes and handshakes.
func (r *serverRig) serverReceivedBriefly(want ...string) {
	r.t.Helper()
	synctest.Wait()
	var got []string
	for _, line := range r.s.received() {
		_, what, _ := strings.Cut(line, " ")
		method, about, _ := strings.Cut(what, " ")
		switch {
		case method == "tools/list", method == "initialize", method == "notifications/initialized", method == "server/discover":
			continue
		case method == "tools/call":
			about = ""
		}
		got = append(got, strings.TrimSpace(method+" "+about))
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("the server received\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A legacy client's call that becomes a task is polled until it ends; the client sees one call.
func TestTaskDrivenUp(t *testing.T) {
	for _, c := range []struct{ name, end, want, fails string }{
		{"completed", stateOf("completed", `,"result":{"resultType":"complete","content":[{"type":"text","text":"x"}],"structuredContent":{"n":9007199254740993},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"f"},"v/x":1}}`),
			`{"jsonrpc":"2.0","id":"k","result":{"content":[{"type":"text","text":"x"}],"structuredContent":{"n":9007199254740993},"_meta":{"v/x":1}}}`, ""},
		{"a tool's own error", stateOf("completed", `,"result":{"content":[],"isError":true}`), `{"jsonrpc":"2.0","id":"k","result":{"content":[],"isError":true}}`, ""},
		{"failed", stateOf("failed", `,"error":{"code":-32050,"message":"broken","data":{"x":1.50}}`), `{"jsonrpc":"2.0","id":"k","error":{"code":-32050,"message":"broken","data":{"x":1.50}}}`, ""},
		{"failed without a reason", stateOf("failed", ``), "", "upstream_bad_answer"},
		{"completed without a result", stateOf("completed", ``), "", "upstream_bad_answer"},
		{"cancelled", stateOf("cancelled", ``), "", "upstream_bad_answer"},
		{"unknown", `-32602`, "", "upstream_bad_answer"},
	} {
		taskRig(t, proxy.Modern, true, func(t *testing.T, r *serverRig) {
			r.s.answers("tools/call", madeTask)
			r.s.answers("tasks/get", stateOf("working", `,"pollIntervalMs":5000`), stateOf("working", ``), c.end)
			e := r.ask(r.legacy(`{"roots":{}}`), `"k"`, "tools/call", `"name":"a","arguments":{},"task":{"ttl":1}`)
			if got := strings.Join(r.s.received(), "\n"); !strings.Contains(got, `"io.modelcontextprotocol/clientCapabilities":{"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`) || strings.Contains(got, `"task":`) {
				t.Errorf("the server received\n%s", got)
			}
			due := time.Now()
			for _, wait := range []time.Duration{2 * time.Second, 5 * time.Second, 5 * time.Second} {
				due = due.Add(wait)
				time.Sleep(time.Until(due) - time.Millisecond)
				r.serverReceived()
				time.Sleep(2 * time.Millisecond)
				synctest.Wait()
				if got := r.s.received(); len(got) != 1 || !strings.HasSuffix(got[0], " tasks/get t/1") {
					t.Errorf("%s: the server received %q after %s", c.name, got, wait)
				}
			}
			if c.want != "" {
				e.received(c.want)
			}
			e.ended(c.fails)
			time.Sleep(time.Minute)
			r.serverReceived()
		})
	}
}

// The extension is declared only for requests that may become tasks, whatever the client declared.
func TestTaskDeclaredUp(t *testing.T) {
	for _, drive := range []bool{true, false} {
		taskRig(t, proxy.Modern, drive, func(t *testing.T, r *serverRig) {
			s := r.legacy(`{"tasks":{"list":{}},"extensions":{"io.modelcontextprotocol/tasks":{},"v/x":{}}}`)
			for _, method := range []string{"tools/call", "tools/list", "prompts/get", "completion/complete"} {
				var caps string
				r.s.on[method] = func(c *scriptedCall) {
					caps = string(c.msg.Of(c.msg.Caps))
					c.result(`{"resultType":"complete"}`)
				}
				r.ask(s, "1", method, `"name":"a","task":{"ttl":1}`).ended("")
				want := `{"extensions":{"v/x":{}}}`
				if drive && method == "tools/call" {
					want = `{"extensions":{"v/x":{},"io.modelcontextprotocol/tasks":{}}}`
				}
				if caps != want {
					t.Errorf("drive %v, %s: %s", drive, method, caps)
				}
			}
			e := r.ask(s, "2", "initialize", `"protocolVersion":"2025-11-25","capabilities":{"tasks":{}},"clientInfo":{"name":"c","version":"1"}`)
			e.mu.Lock()
			got := strings.Join(e.got, "")
			e.mu.Unlock()
			if want := `{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/ui":{}}},"serverInfo":{"name":"f","version":"1"}}}`; got != want {
				t.Errorf("welcomed with\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// Where tasks are hidden, a server that still makes one violates the protocol (vector 53).
func TestTaskHiddenUp(t *testing.T) {
	taskRig(t, proxy.Modern, false, func(_ *testing.T, r *serverRig) {
		r.s.answers("tools/call", madeTask)
		r.ask(r.legacy(`{}`), "1", "tools/call", `"name":"a","arguments":{}`).ended("upstream_bad_answer")
	})
	taskRig(t, proxy.Modern, true, func(_ *testing.T, r *serverRig) { // of a call only
		r.s.answers("prompts/get", madeTask)
		r.ask(r.legacy(`{}`), "1", "prompts/get", `"name":"a"`).ended("upstream_bad_answer")
		r.s.answers("tools/call", `{"resultType":"task","status":"working"}`)
		r.ask(r.legacy(`{}`), "1", "tools/call", `"name":"a","arguments":{}`).ended("upstream_bad_answer")
		r.s.answers("tools/call", `{"resultType":"other"}`)
		r.ask(r.legacy(`{}`), "1", "tools/call", `"name":"a","arguments":{}`).ended("upstream_bad_answer")
	})
}

// A question of a task is put to the client once, and the answer is sent to the task.
func TestTaskQuestionsUp(t *testing.T) {
	taskRig(t, proxy.Modern, true, func(_ *testing.T, r *serverRig) {
		const form = `"params":{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{}}}`
		const first = `,"inputRequests":{"a":{"method":"elicitation/create",` + form + `},"b":{"method":"roots/list","params":{}}}`
		r.s.answers("tools/call", madeTask)
		r.s.answers("tasks/get", stateOf("input_required", first), stateOf("input_required", first), stateOf("input_required", `,"inputRequests":{"b":{"method":"roots/list"},"c":{"method":"roots/list"}}`),
			stateOf("completed", `,"result":{"content":[]}`))
		s := r.legacy(`{"elicitation":{},"roots":{}}`)
		e := r.ask(s, `7`, "tools/call", `"name":"a","arguments":{}`)
		time.Sleep(2100 * time.Millisecond)
		e.received(`{"jsonrpc":"2.0","id":"dragoman-1","method":"elicitation/create",`+form+`}`, `{"jsonrpc":"2.0","id":"dragoman-2","method":"roots/list","params":{}}`)
		time.Sleep(time.Minute) // the user thinks
		s.Answer(fakeserver.Scan(r.t, `{"jsonrpc":"2.0","id":"dragoman-1","result":{"action":"accept","content":{"n":9007199254740993},"_meta":{"x":1}}}`))
		synctest.Wait()
		r.serverReceivedBriefly("tools/call", "tasks/get t/1")
		s.Answer(fakeserver.Scan(r.t, `{"jsonrpc":"2.0","id":"dragoman-2","result":{"roots":[]}}`))
		// the answers, and at once how it is doing; what is still asked there has been answered
		r.serverReceivedBriefly(`tasks/update {"a":{"action":"accept","content":{"n":9007199254740993}},"b":{"roots":[]}}`, "tasks/get t/1")
		e.received()
		time.Sleep(2 * time.Second)
		e.received(`{"jsonrpc":"2.0","id":"dragoman-3","method":"roots/list","params":{}}`)
		s.Answer(fakeserver.Scan(r.t, `{"jsonrpc":"2.0","id":"dragoman-3","result":{"roots":[]}}`))
		r.serverReceivedBriefly("tasks/get t/1", `tasks/update {"c":{"roots":[]}}`, "tasks/get t/1")
		e.received(`{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`)
		e.ended("")
	})
}

// A question that the client cannot answer, or may not be asked, ends the call and the task.
func TestTaskQuestionsRefusedUp(t *testing.T) {
	taskRig(t, proxy.Modern, true, func(_ *testing.T, r *serverRig) {
		r.s.answers("tools/call", madeTask)
		r.s.answers("tasks/get", stateOf("input_required", `,"inputRequests":{"b":{"method":"roots/list"}}`))
		s := r.legacy(`{"roots":{}}`)
		e := r.ask(s, `7`, "tools/call", `"name":"a","arguments":{}`)
		time.Sleep(2100 * time.Millisecond)
		e.received(`{"jsonrpc":"2.0","id":"dragoman-1","method":"roots/list","params":{}}`)
		s.Answer(fakeserver.Scan(r.t, `{"jsonrpc":"2.0","id":"dragoman-1","error":{"code":-1,"message":"no"}}`))
		e.received(`{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"the client could not answer the server's question: no (code -1)"}],"isError":true}}`)
		e.ended("")
		r.serverReceivedBriefly("tools/call", "tasks/get t/1", "tasks/cancel t/1")
		f := r.ask(r.legacy(`{"sampling":{}}`), `8`, "tools/call", `"name":"a","arguments":{}`)
		time.Sleep(2100 * time.Millisecond)
		f.ended("question_not_supported")
		r.serverReceivedBriefly("tools/call", "tasks/get t/1", "tasks/cancel t/1")
		// one that asks for ever is stopped
		n := 0
		r.s.on["tasks/get"] = func(c *scriptedCall) {
			n++
			c.result(stateOf("input_required", fmt.Sprintf(`,"pollIntervalMs":0,"inputRequests":{"k%d":{"method":"roots/list"}}`, n)))
		}
		g := r.ask(s, `9`, "tools/call", `"name":"a","arguments":{}`)
		time.Sleep(2100 * time.Millisecond)
		for i := 0; i < 10000 && !g.done(); i++ {
			s.Answer(fakeserver.Scan(r.t, fmt.Sprintf(`{"jsonrpc":"2.0","id":"dragoman-%d","result":{"roots":[]}}`, i+2)))
			synctest.Wait()
		}
		g.ended("upstream_bad_answer")
	})
}

func (e *clientRequest) done() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.over
}

// A client that cancels, leaves or ends its session cancels the task by tasks/cancel.
func TestTaskCancelledUp(t *testing.T) {
	taskRig(t, proxy.Modern, true, func(t *testing.T, r *serverRig) {
		r.s.answers("tools/call", madeTask)
		r.s.answers("tasks/get", stateOf("working", ""))
		s := r.legacy(`{}`)
		e := r.ask(s, `7`, "tools/call", `"name":"a","arguments":{}`)
		e.leave()
		e.ended("cancelled")
		r.serverReceivedBriefly("tools/call", "tasks/cancel t/1")
		// while it is being asked after: that request is cancelled, the task by its own method
		held := r.s.hold("tasks/get")
		e = r.ask(s, `8`, "tools/call", `"name":"a","arguments":{}`)
		time.Sleep(2100 * time.Millisecond)
		c := <-held
		e.leave()
		e.ended("cancelled")
		got := r.s.received()
		if len(got) != 4 || !slices.ContainsFunc(got, func(l string) bool { return strings.HasSuffix(l, "notifications/cancelled "+c.id) }) ||
			!slices.ContainsFunc(got, func(l string) bool { return strings.HasSuffix(l, "tasks/cancel t/1") }) {
			t.Errorf("the server received %q", got)
		}
		// while its user is asked
		r.s.answers("tasks/get", stateOf("input_required", `,"inputRequests":{"b":{"method":"roots/list"}}`))
		s = r.legacy(`{"roots":{}}`)
		out := &fakeserver.Outlet{}
		s.SetOutlet(out)
		e = r.ask(s, `8`, "tools/call", `"name":"a","arguments":{}`)
		time.Sleep(2100 * time.Millisecond)
		e.received(`{"jsonrpc":"2.0","id":"dragoman-1","method":"roots/list","params":{}}`)
		e.leave()
		r.serverReceivedBriefly("tools/call", "tasks/get t/1", "tasks/cancel t/1")
		e.mu.Lock()
		withdrawn := strings.Join(append(out.Take(), e.got...), "\n")
		e.mu.Unlock()
		if !strings.Contains(withdrawn, `"notifications/cancelled","params":{"requestId":"dragoman-1"`) {
			t.Errorf("the question was not taken back: %s", withdrawn)
		}
		if s.Answer(fakeserver.Scan(t, `{"jsonrpc":"2.0","id":"dragoman-1","result":{"roots":[]}}`)) {
			t.Error("somebody still waits for the answer")
		}
	})
}

// Failed polls and updates of a task are retried a few times; then the call fails.
func TestTaskPollFails(t *testing.T) {
	taskRig(t, proxy.Modern, true, func(t *testing.T, r *serverRig) {
		broken := 0
		fail := func(then string) func(c *scriptedCall) {
			return func(c *scriptedCall) {
				if broken > 0 {
					broken--
					c.fail()
					return
				}
				c.result(then)
			}
		}
		r.s.answers("tools/call", madeTask)
		r.s.on["tasks/get"] = fail(stateOf("completed", `,"result":{"content":[]}`))
		broken = pollFailures
		e := r.ask(r.legacy(`{}`), `7`, "tools/call", `"name":"a","arguments":{}`)
		time.Sleep(time.Minute)
		e.received(`{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`)
		e.ended("")
		r.serverReceivedBriefly("tools/call", "tasks/get t/1", "tasks/get t/1", "tasks/get t/1", "tasks/get t/1", "tasks/get t/1", "tasks/get t/1")
		broken = pollFailures + 1
		e = r.ask(r.legacy(`{}`), `8`, "tools/call", `"name":"a","arguments":{}`)
		time.Sleep(time.Minute)
		e.ended("upstream_lost")
		r.serverReceivedBriefly("tools/call", "tasks/get t/1", "tasks/get t/1", "tasks/get t/1", "tasks/get t/1", "tasks/get t/1", "tasks/get t/1", "tasks/cancel t/1")
		// answers that were lost are given again
		r.s.answers("tasks/get", stateOf("input_required", `,"inputRequests":{"b":{"method":"roots/list"}}`), stateOf("completed", `,"result":{"content":[]}`))
		r.s.on["tasks/update"] = fail(`{"resultType":"complete"}`)
		broken = 2
		s := r.legacy(`{"roots":{}}`)
		e = r.ask(s, `9`, "tools/call", `"name":"a","arguments":{}`)
		time.Sleep(2100 * time.Millisecond)
		s.Answer(fakeserver.Scan(t, `{"jsonrpc":"2.0","id":"dragoman-1","result":{"roots":[]}}`))
		time.Sleep(time.Minute)
		r.serverReceivedBriefly("tools/call", "tasks/get t/1", `tasks/update {"b":{"roots":[]}}`, `tasks/update {"b":{"roots":[]}}`, `tasks/update {"b":{"roots":[]}}`, "tasks/get t/1")
		e.received(`{"jsonrpc":"2.0","id":"dragoman-1","method":"roots/list","params":{}}`, `{"jsonrpc":"2.0","id":9,"result":{"content":[]}}`)
	})
}

// A server that is unreachable for a moment has not lost the task.
func TestTaskPollUnreachable(t *testing.T) {
	taskRig(t, proxy.Modern, true, func(_ *testing.T, r *serverRig) {
		r.s.answers("tools/call", madeTask)
		r.s.answers("tasks/get", stateOf("completed", `,"result":{"content":[]}`))
		e := r.ask(r.legacy(`{}`), `7`, "tools/call", `"name":"a","arguments":{}`)
		synctest.Wait()
		r.s.link(0).fails(true)
		time.Sleep(5 * time.Second)
		e.received()
		r.s.link(0).fails(false)
		time.Sleep(5 * time.Second)
		e.received(`{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`)
	})
}

// A legacy server that several clients share makes no task of a call: a result that looks like one is a result.
func TestTaskOfSharedLegacyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScriptedServer(`{"tools":{}}`)
		r := newServerRig(t, s, false, func(o *Options) { o.DriveTasks, o.Sessions.Isolation.Sharing = true, sessions.Shared })
		s.answers("tools/call", madeTask)
		e := r.ask(r.legacy(`{}`), `7`, "tools/call", `"name":"a","arguments":{}`)
		time.Sleep(5 * time.Second)
		if e.ended(""); len(e.got) != 1 || !strings.Contains(e.got[0], `"taskId":"t/1"`) {
			t.Errorf("the client received %q", e.got)
		}
		r.close()
	})
}

// fail breaks a call off without an answer.
func (c *scriptedCall) fail() {
	if c.l.Mux == nil {
		c.in <- "broken"
		return
	}
	c.l.TooLong([]byte(`{"id":`+c.id), nil, proxy.Errf(proxy.Lost, "broken off"))
}

// matchesInOrder reports whether text contains the parts in order.
func matchesInOrder(text string, parts ...string) bool {
	for _, part := range parts {
		_, after, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = after
	}
	return true
}
