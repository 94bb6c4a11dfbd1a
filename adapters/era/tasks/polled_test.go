package tasks

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/adapters/era/work"
	"dragoman/proxy"
)

// noting returns a group that records what it notes.
func noting(to *[]string) *work.Group {
	return work.New(func(_, msg string, _ error) { *to = append(*to, msg) })
}

// state returns an answer to tasks/get.
func state(status, more string) string {
	return `{"jsonrpc":"2.0","id":$ID,"result":{"taskId":"t/1","status":"` + status + `"` + more + `}}`
}

// poll begins to poll a task.
func (r *rig) poll(more string) *Polled {
	r.t.Helper()
	p, err := Poll(r.ex, r.s, r.group, fakeserver.Scan(r.t, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"t/1"`+more+`}}`))
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// A task is polled at the interval that the server names, within bounds; the last named one holds.
func TestPollInterval(t *testing.T) {
	for more, want := range map[string]time.Duration{"": pollStandard, `,"pollIntervalMs":2500`: 2500 * time.Millisecond, `,"pollIntervalMs":0`: pollLeast, `,"pollIntervalMs":-5`: pollLeast,
		`,"pollIntervalMs":49`: pollLeast, `,"pollIntervalMs":51`: 51 * time.Millisecond, `,"pollIntervalMs":60001`: pollMost, `,"pollIntervalMs":99999999999`: pollStandard, `,"pollIntervalMs":"1"`: pollStandard} {
		during(t, map[string][]string{"tasks/get": {state("working", ""), state("working", `,"pollIntervalMs":100`), state("working", ""), state("completed", `,"result":{"a":1}`)}}, func(t *testing.T, r *rig) {
			began := time.Now()
			p := r.poll(more)
			r.reads(p, `{"jsonrpc":"2.0","id":"k","result":{"a":1}}`)
			if m, err := p.Next(time.Time{}); err != io.EOF {
				t.Errorf("after the response: %v, %v", m, err)
			}
			if d := time.Since(began); d != 2*want+200*time.Millisecond {
				t.Errorf("%s: %s, want 2 * %s and 200ms", more, d, want)
			}
			if !r.ex.Lasting.Load() {
				t.Error("the call does not last")
			}
			r.close(p)
			r.s.received("tasks/get t/1", "tasks/get t/1", "tasks/get t/1", "tasks/get t/1")
		})
	}
	if pollStandard != time.Second || pollLeast != 50*time.Millisecond || pollMost != time.Minute || pollFailures != 5 || requestTime != 10*time.Second {
		t.Error("bounds have changed: adapt docs/design/eras.md")
	}
}

// Each end of a task is the end of the call.
func TestPollEnds(t *testing.T) {
	for answer, want := range map[string]string{
		state("completed", `,"result":{"content":[],"isError":true}`): `{"jsonrpc":"2.0","id":"k","result":{"content":[],"isError":true}}`,
		state("completed", ""):                                            proxy.BadAnswer.Name,
		state("completed", `,"result":[]`):                                proxy.BadAnswer.Name,
		state("failed", `,"error":{"code":-5,"message":"m"}`):             `{"jsonrpc":"2.0","id":"k","error":{"code":-5,"message":"m"}}`,
		state("failed", ""):                                               proxy.BadAnswer.Name,
		state("cancelled", ""):                                            proxy.BadAnswer.Name,
		`{"jsonrpc":"2.0","id":$ID,"error":{"code":-1,"message":"gone"}}`: proxy.BadAnswer.Name,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}` + "\n" + state("completed", `,"result":{}`): `{"jsonrpc":"2.0","id":"k","result":{}}`,
	} {
		during(t, map[string][]string{"tasks/get": {answer}}, func(_ *testing.T, r *rig) {
			p := r.poll("")
			r.reads(p, want)
			r.close(p)
			r.s.received("tasks/get t/1")
		})
	}
	during(t, nil, func(t *testing.T, r *rig) {
		for _, id := range []string{"", `,"taskId":7`} {
			if _, err := Poll(r.ex, r.s, r.group, fakeserver.Scan(t, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"task"`+id+`}}`)); err == nil || proxy.AsError(err).Name != proxy.BadAnswer.Name || r.ex.Lasting.Load() {
				t.Errorf("taskId %q: %v", id, err)
			}
		}
	})
}

// A state that asks for input is returned. Answers go to the server with the next request, at once, and again if they did not arrive.
func TestPollAnswers(t *testing.T) {
	asks := state("input_required", `,"inputRequests":{"a":{}}`)
	during(t, map[string][]string{"tasks/get": {asks, asks, state("completed", `,"result":{}`)}, "tasks/update": {"broken", "refused", finished}}, func(t *testing.T, r *rig) {
		p := r.poll("")
		r.reads(p, strings.ReplaceAll(asks, "$ID", `"dragoman-task"`))
		if !p.Asks() {
			t.Error("the state does not ask")
		}
		began := time.Now()
		r.reads(p, strings.ReplaceAll(asks, "$ID", `"dragoman-task"`)) // not answered
		if d := time.Since(began); d != pollStandard {
			t.Errorf("polled again after %s", d)
		}
		p.Answer([]byte(`{"a":1}`))
		began = time.Now()
		r.reads(p, `{"jsonrpc":"2.0","id":"k","result":{}}`)
		if d := time.Since(began); d != 2*pollStandard || p.Asks() {
			t.Errorf("after %s; asks %v", d, p.Asks())
		}
		r.close(p)
		r.s.received("tasks/get t/1", "tasks/get t/1", `tasks/update t/1 {"a":1}`, `tasks/update t/1 {"a":1}`, `tasks/update t/1 {"a":1}`, "tasks/get t/1")
	})
}

// Requests are made on behalf of the client: with its session and caller, and what a modern request says of the client.
func TestPollRequests(t *testing.T) {
	during(t, map[string][]string{"tasks/get": {state("cancelled", "")}}, func(t *testing.T, r *rig) {
		p := r.poll("")
		r.ex.Session = new(proxy.Session)
		inner, err := p.message("tasks/get", nil)
		if err != nil {
			t.Fatal(err)
		}
		if inner.Session != r.ex.Session || inner.Caller.Principal != "p" || inner.Client.LogLevel != "" || inner.Client.Version != "2025-11-25" {
			t.Errorf("%+v", inner)
		}
		want := `{"jsonrpc":"2.0","id":"dragoman-task","method":"tasks/get","params":{"taskId":"t/1","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c"},"io.modelcontextprotocol/clientCapabilities":{"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`
		if got := string(inner.Msg.Append(nil)); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		r.reads(p, proxy.BadAnswer.Name)
		r.close(p)
	})
}

// Consecutive failures are tolerated up to a number, a response resets the count; then the call is lost, and the task cancelled.
func TestPollTolerates(t *testing.T) {
	failures := func(n int, then ...string) (all []string) {
		for i := range n {
			all = append(all, []string{"broken", "refused", "status"}[i%3])
		}
		return append(all, then...)
	}
	end := state("completed", `,"result":{}`)
	for _, answers := range [][]string{failures(pollFailures, end), append(failures(pollFailures, state("working", "")), failures(pollFailures, end)...)} {
		during(t, map[string][]string{"tasks/get": answers}, func(t *testing.T, r *rig) {
			began := time.Now()
			p := r.poll("")
			r.reads(p, `{"jsonrpc":"2.0","id":"k","result":{}}`)
			if d := time.Since(began); d != time.Duration(len(answers))*pollStandard {
				t.Errorf("after %s", d)
			}
			r.close(p)
		})
	}
	during(t, map[string][]string{"tasks/get": failures(pollFailures+1, end)}, func(_ *testing.T, r *rig) {
		p := r.poll("")
		r.reads(p, proxy.Lost.Name)
		r.close(p)
		r.s.received(append(strings.Split(strings.Repeat("tasks/get t/1\n", pollFailures+1), "\n")[:pollFailures+1], "tasks/cancel t/1")...)
	})
	during(t, map[string][]string{"tasks/get": {"bare"}}, func(t *testing.T, r *rig) { // an error of the proxy's own
		p := r.poll("")
		if _, err := p.Next(time.Time{}); fmt.Sprint(err) != "context canceled" {
			t.Errorf("%v", err)
		}
		r.close(p)
		r.s.received("tasks/get t/1", "tasks/cancel t/1")
	})
}

// Next waits until the given time; a client that leaves cancels the task by its own method, and a request under way.
func TestPollWaits(t *testing.T) {
	during(t, map[string][]string{"tasks/get": {""}}, func(t *testing.T, r *rig) {
		p := r.poll("")
		for _, after := range []time.Duration{pollStandard / 2, pollStandard, 10 * time.Second} {
			until := time.Now().Add(after)
			if _, err := p.Next(until); err != proxy.ErrNotYet || time.Now() != until {
				t.Errorf("%v at %s", err, time.Since(until))
			}
		}
		r.s.received("tasks/get t/1")
		r.ex.Cancel(proxy.ErrCancelled)
		r.reads(p, "cancelled")
		r.close(p)
		r.s.received("tasks/cancel t/1")
	})
	during(t, nil, func(t *testing.T, r *rig) { // between two polls
		p := r.poll("")
		time.AfterFunc(pollStandard/2, func() { r.ex.Cancel(proxy.ErrCancelled) })
		r.reads(p, "cancelled")
		r.close(p)
		r.s.received("tasks/cancel t/1")
	})
	during(t, map[string][]string{"tasks/get": {""}}, func(_ *testing.T, r *rig) { // closed during a request
		p := r.poll("")
		_, _ = p.Next(time.Now().Add(2 * pollStandard))
		r.close(p)
		r.ex.Cancel(proxy.ErrCancelled)
		r.s.received("tasks/get t/1", "tasks/cancel t/1")
	})
	var noted []string
	during(t, map[string][]string{"tasks/cancel": {"refused"}}, func(t *testing.T, r *rig) {
		r.group = noting(&noted)
		p := r.poll("")
		r.close(p)
		synctest.Wait()
		if len(noted) != 1 {
			t.Errorf("noted %q", noted)
		}
		r.s.received("tasks/cancel t/1")
	})
}

// The error for task methods across the eras names the method.
func TestNotOffered(t *testing.T) {
	if e := NotOffered("tasks/list"); e.Code != proxy.CodeMethodNotFound || !strings.Contains(e.Message, "tasks/list") {
		t.Errorf("%v", e)
	}
}
