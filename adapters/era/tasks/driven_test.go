package tasks

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/proxy"
)

const (
	made     = `{"jsonrpc":"2.0","id":$ID,"result":{"task":{"taskId":"t\/1","status":"working"}}}`
	finished = `{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}`
)

// begin drives a call; it must be sent.
func (r *rig) begin() proxy.Replies {
	r.t.Helper()
	replies, err := Drive(r.s, r.ex, r.group)
	if err != nil {
		r.t.Fatal(err)
	}
	return replies
}

// A task is followed to its result in a second request with the client's id. The client sees one call: the token of the second request
// becomes its own, and the reference to the task is removed.
func TestDrive(t *testing.T) {
	progress := func(token string) string {
		return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + token + `,"progress":1}}`
	}
	const log = `{"jsonrpc":"2.0","method":"notifications/message","params":{"progressToken":9,"level":"info","data":1}}`
	during(t, map[string][]string{
		"tools/call": {progress(`"q"`) + "\n" + made},
		"tasks/result": {progress("7") + "\n" + log + "\n" +
			`{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"_meta":{"a":1,"io.modelcontextprotocol/related-task":{"taskId":"t/1"}}}}`},
	}, func(t *testing.T, r *rig) {
		replies := r.begin()
		r.reads(replies, progress(`"q"`)) // the link has restored it
		if r.ex.Lasting.Load() {
			t.Error("the call lasts before it is a task")
		}
		r.reads(replies, progress(`"p"`))
		r.reads(replies, log)
		r.reads(replies, `{"jsonrpc":"2.0","id":"k","result":{"content":[],"_meta":{"a":1}}}`)
		if !r.ex.Lasting.Load() {
			t.Error("the call does not last")
		}
		r.close(replies)
		r.s.received("tools/call", "tasks/result t/1")
		if want := `{"jsonrpc":"2.0","id":"k","method":"tasks/result","params":{"taskId":"t\/1"}}`; r.s.raw[1] != want {
			t.Errorf("the second request is %s, want %s", r.s.raw[1], want)
		}
	})
}

// What is no task passes: results, errors and, once the task is known, even a result that looks like another task.
func TestDrivePasses(t *testing.T) {
	for _, answer := range []string{finished, `{"jsonrpc":"2.0","id":$ID,"error":{"code":-1,"message":"no","data":{"task":{"taskId":"t"}}}}`,
		`{"jsonrpc":"2.0","id":$ID,"result":{"task":{"taskId":7}}}`, `{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{}}}}`} {
		during(t, map[string][]string{"tools/call": {answer}}, func(_ *testing.T, r *rig) {
			replies := r.begin()
			r.reads(replies, strings.ReplaceAll(answer, "$ID", `"k"`))
			r.close(replies)
			r.s.received("tools/call")
		})
	}
	another := strings.ReplaceAll(made, "t\\/1", "t/2")
	for _, answer := range []string{another, `{"jsonrpc":"2.0","id":$ID,"error":{"code":-1,"message":"failed"}}`} {
		during(t, map[string][]string{"tools/call": {made}, "tasks/result": {answer}}, func(_ *testing.T, r *rig) {
			replies := r.begin()
			r.reads(replies, strings.ReplaceAll(answer, "$ID", `"k"`))
			r.close(replies)
			r.s.received("tools/call", "tasks/result t/1")
		})
	}
	during(t, map[string][]string{"tools/call": {made}, "tasks/result": {`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}`}}, func(t *testing.T, r *rig) {
		r.ex.Msg = *fakeserver.Scan(t, `{"jsonrpc":"2.0","id":"k","method":"tools/call","params":{"name":"a"}}`) // without a token
		replies := r.begin()
		r.reads(replies, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}`)
		r.close(replies)
		r.s.received("tools/call", "tasks/result t/1", "tasks/cancel t/1")
	})
	during(t, map[string][]string{"tools/call": {"refused"}}, func(t *testing.T, r *rig) {
		if _, err := Drive(r.s, r.ex, r.group); err == nil {
			t.Error("no error")
		}
	})
}

// A task is cancelled once, by its own method, when its client leaves; one that has ended is not.
func TestDriveCancels(t *testing.T) {
	during(t, map[string][]string{"tools/call": {made}, "tasks/result": {""}}, func(t *testing.T, r *rig) {
		replies := r.begin()
		if _, err := replies.Next(time.Now().Add(time.Second)); err != proxy.ErrNotYet {
			t.Errorf("%v", err)
		}
		r.ex.Cancel(proxy.ErrCancelled)
		r.reads(replies, "cancelled") // the second request has been cancelled too
		r.close(replies)
		r.s.received("tools/call", "tasks/result t/1", "tasks/cancel t/1")
	})
	during(t, map[string][]string{"tools/call": {made}, "tasks/result": {""}}, func(_ *testing.T, r *rig) { // closed instead
		replies := r.begin()
		_, _ = replies.Next(time.Now().Add(time.Second))
		r.close(replies)
		r.ex.Cancel(proxy.ErrCancelled)
		r.s.received("tools/call", "tasks/result t/1", "tasks/cancel t/1")
	})
	during(t, map[string][]string{"tools/call": {made}, "tasks/result": {finished}}, func(_ *testing.T, r *rig) {
		replies := r.begin()
		r.reads(replies, `{"jsonrpc":"2.0","id":"k","result":{"content":[]}}`)
		r.ex.Cancel(proxy.ErrCancelled)
		r.close(replies)
		r.s.received("tools/call", "tasks/result t/1")
	})
	during(t, map[string][]string{"tools/call": {""}}, func(_ *testing.T, r *rig) { // before there is a task
		replies := r.begin()
		_, _ = replies.Next(time.Now().Add(time.Second))
		r.close(replies)
		r.s.received("tools/call")
	})
	during(t, map[string][]string{"tools/call": {made}, "tasks/result": {"refused"}}, func(_ *testing.T, r *rig) {
		replies := r.begin()
		r.reads(replies, proxy.Unreachable.Name)
		r.close(replies)
		r.s.received("tools/call", "tasks/result t/1", "tasks/cancel t/1")
	})
	during(t, map[string][]string{"tools/call": {made}, "tasks/result": {""}}, func(t *testing.T, r *rig) { // the upstream has been closed
		replies := r.begin()
		_, _ = replies.Next(time.Now().Add(time.Second))
		r.group.Close()
		r.close(replies)
		r.s.received("tools/call", "tasks/result t/1")
	})
}

// A cancellation is pending on its link until the server has answered it, and is given up after a time.
func TestDriveCancellationIsPending(t *testing.T) {
	var noted []string
	during(t, map[string][]string{"tools/call": {made}, "tasks/result": {""}, "tasks/cancel": {""}}, func(t *testing.T, r *rig) {
		r.group = noting(&noted)
		replies := r.begin()
		_, _ = replies.Next(time.Now().Add(time.Second))
		began := time.Now()
		r.close(replies)
		for pending := 1; pending > 0; {
			time.Sleep(time.Second)
			synctest.Wait()
			r.s.mu.Lock()
			pending = r.s.begun
			r.s.mu.Unlock()
		}
		if d := time.Since(began); d != requestTime || len(noted) != 1 {
			t.Errorf("given up after %s, noted %q", d, noted)
		}
		r.s.mu.Lock()
		r.s.open = 0 // the answer was never read to its end
		r.s.mu.Unlock()
	})
}
