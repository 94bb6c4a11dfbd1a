package era

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/proxy"
)

const wanted = `{"task":{"taskId":"t/1","status":"working","createdAt":"2025-11-25T00:00:00Z","lastUpdatedAt":"2025-11-25T00:00:00Z","ttl":null,"pollInterval":5}}`

// A tool that requires a task runs as one, and its caller sees an ordinary call: the result does not mention the task.
func TestTaskDrivenDown(t *testing.T) {
	const info = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"f","version":"1"}}`
	for _, c := range []struct{ name, end, want string }{
		{"completed", `"result":{"content":[{"type":"text","text":"x"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t/1"},"v/x":1}}`,
			`{"jsonrpc":"2.0","id":"k","result":{"content":[{"type":"text","text":"x"}],"_meta":{"v/x":1,"io.modelcontextprotocol/serverInfo":{"name":"f","version":"1"}},"resultType":"complete"}}`},
		{"nothing but related-task", `"result":{"content":[],"isError":true,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t/1"}}}`,
			`{"jsonrpc":"2.0","id":"k","result":{"content":[],"isError":true,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"f","version":"1"}},"resultType":"complete"}}`},
		{"failed", `"error":{"code":-32600,"message":"broken","data":{"x":1.50}}`, `{"jsonrpc":"2.0","id":"k","error":{"code":-32600,"message":"broken","data":{"x":1.50}}}`},
		{"an error of the legacy era", `"error":{"code":-32050,"message":"broken"}`,
			`{"jsonrpc":"2.0","id":"k","error":{"code":-32603,"message":"broken","data":{"code":"upstream_code_not_translatable","retryable":false,"originalCode":-32050}}}`},
	} {
		for _, caps := range []string{`{}`, `{"roots":{}}`} {
			taskRig(t, proxy.Legacy, true, func(t *testing.T, r *serverRig) {
				r.s.answers("tools/call", wanted)
				held := r.s.hold("tasks/result")
				e := r.call(client{caps: caps}, `"k"`, "long")
				got := strings.Join(r.s.received(), "\n")
				if !strings.Contains(got, `tools/call {"name":"long","arguments":{},"task":{}}`) || !strings.Contains(got, " tasks/result t/1") {
					t.Errorf("the server received\n%s", got)
				}
				time.Sleep(time.Minute)
				(<-held).send(`{"jsonrpc":"2.0","id":$ID,` + c.end + `}`)
				e.received(c.want)
				e.ended("")
				time.Sleep(time.Minute)
				r.serverReceived()
				// one that runs at once all the same
				r.s.answers("tools/call", `{"content":[]}`)
				e = r.call(client{caps: caps}, `1`, "long")
				e.received(`{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete",` + info + `}}`)
				r.s.received()
				// the others are calls as ever
				for _, tool := range []string{"maybe", "short", "unknown"} {
					r.call(client{caps: caps}, `1`, tool).ended("")
				}
				if got := strings.Join(r.s.received(), "\n"); strings.Contains(got, `"task"`) {
					t.Errorf("the server received\n%s", got)
				}
			})
		}
	}
}

// A question of a task ends the client's request, and the retry resumes it, as in any call.
func TestTaskQuestionsDown(t *testing.T) {
	taskRig(t, proxy.Legacy, true, func(t *testing.T, r *serverRig) {
		r.s.answers("tools/call", wanted)
		held := r.s.hold("tasks/result")
		e := r.call(client{caps: `{"roots":{}}`}, `1`, "long")
		c := <-held
		c.send(`{"jsonrpc":"2.0","id":"q","method":"roots/list","params":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t/1"}}}}`)
		time.Sleep(time.Second)
		e.ended("")
		e.mu.Lock()
		got := strings.Join(e.got, "\n")
		e.mu.Unlock()
		if !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"r1-1":{"method":"roots/list","params":{}}},"requestState":"v1.`) {
			t.Fatalf("received %s", got)
		}
		_, state, _ := strings.Cut(got, `"requestState":"`)
		state, _, _ = strings.Cut(state, `"`)
		r.s.received()
		f := r.request(client{caps: `{"roots":{}}`}, `2`, "tools/call", `"name":"long","arguments":{},"inputResponses":{"r1-1":{"roots":[]}},"requestState":"`+state+`"`)
		if said := strings.Join(r.s.received(), "\n"); !strings.HasSuffix(said, ` answer {"jsonrpc":"2.0","id":"q","result":{"roots":[]}}`) || strings.Contains(said, "tools/call") {
			t.Errorf("the server received\n%s", said)
		}
		c.result(`{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t/1"}}}`)
		f.received(`{"jsonrpc":"2.0","id":2,"result":{"content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"f","version":"1"}},"resultType":"complete"}}`)
		f.ended("")
		r.serverReceived()
	})
}

// A client that leaves at any time cancels the task by tasks/cancel.
func TestTaskCancelledDown(t *testing.T) {
	for _, caps := range []string{`{}`, `{"roots":{}}`} {
		taskRig(t, proxy.Legacy, true, func(t *testing.T, r *serverRig) {
			r.s.answers("tools/call", wanted)
			held := r.s.hold("tasks/result")
			e := r.call(client{caps: caps}, `1`, "long")
			c := <-held
			r.s.received()
			e.leave()
			e.ended("cancelled")
			time.Sleep(time.Second)
			got := r.s.received()
			slices.Sort(got)
			session := fmt.Sprint(c.l.n)
			if !slices.Equal(got, []string{session + " notifications/cancelled " + c.id, session + " tasks/cancel t/1"}) {
				t.Errorf("the server received %q", got)
			}
			// with a question open: the task is cancelled first, or the server would take the answer for one
			if caps != "{}" {
				time.Sleep(10 * time.Second)
				e = r.call(client{caps: caps}, `2`, "long")
				c = <-held
				c.send(`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`)
				synctest.Wait()
				r.s.received()
				e.leave()
				time.Sleep(time.Second)
				if got := strings.Join(r.s.received(), "\n"); !matchesInOrder(got, " tasks/cancel t/1", ` answer {"jsonrpc":"2.0","id":"q","error":`) {
					t.Errorf("the server received %s", got)
				}
			}
			// a result that cannot be had
			time.Sleep(10 * time.Second)
			e = r.call(client{caps: caps}, `2`, "long")
			c = <-held
			r.s.received()
			c.fail()
			e.ended("upstream_lost")
			time.Sleep(time.Second)
			if got := r.s.received(); !slices.ContainsFunc(got, func(l string) bool { return strings.HasSuffix(l, " tasks/cancel t/1") }) {
				t.Errorf("the server received %q", got)
			}
		})
	}
}

// Progress of a task carries the client's token, also after the call has become a task.
func TestTaskProgressDown(t *testing.T) {
	for _, caps := range []string{`{}`, `{"roots":{}}`} {
		taskRig(t, proxy.Legacy, true, func(_ *testing.T, r *serverRig) {
			token := ""
			r.s.on["tools/call"] = func(c *scriptedCall) {
				token = c.token
				c.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":1}}`)
				c.result(wanted)
			}
			held := r.s.hold("tasks/result")
			e := r.call(client{caps: caps, extra: `,"progressToken":7`}, `1`, "long")
			e.received(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}`)
			c := <-held
			c.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + token + `,"progress":2}}`)
			e.received(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":2}}`)
			c.result(`{"content":[]}`)
			e.received(`{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"f","version":"1"}}}}`)
		})
	}
}

// Where tasks are hidden, tools that require a task are hidden too; execution never passes (vector 80).
func TestTaskHiddenDown(t *testing.T) {
	const rest = `],"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"f","version":"1"}}}}`
	for _, drive := range []bool{false, true} {
		taskRig(t, proxy.Legacy, drive, func(t *testing.T, r *serverRig) {
			e := r.request(client{}, "1", "tools/list", `"x":1`)
			if drive {
				e.received(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"long"},{"name":"maybe"},{"name":"short"}` + rest)
			} else {
				e.received(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"maybe"},{"name":"short"}` + rest)
			}
			r.request(client{caps: `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`}, "1", "server/discover", `"x":1`).
				received(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"f","version":"1"}}}}`)
			if got := strings.Join(r.s.received(), "\n"); strings.Contains(got, "tasks") {
				t.Errorf("declared: %s", got)
			}
			r.call(client{}, "1", "maybe").ended("")
			if got := strings.Join(r.s.received(), "\n"); strings.Contains(got, `"task"`) {
				t.Errorf("the server received %s", got)
			}
		})
	}
}
