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

// A call whose client leaves before the server has named the task waits for the task, and cancels that. The call itself is not cancelled,
// unless no task comes.
func TestDriveCancelsEarly(t *testing.T) {
	leave := func(r *rig, replies proxy.Replies) { // the client leaves while its call is read
		time.AfterFunc(slow/2, func() { r.ex.Cancel(proxy.ErrCancelled) })
		r.reads(replies, "cancelled")
		r.close(replies)
	}
	closed := func(r *rig, replies proxy.Replies) { // the call is given up between two reads
		_, _ = replies.Next(time.Now().Add(slow / 2))
		r.ex.Cancel(proxy.ErrCancelled)
		r.close(replies)
		time.Sleep(slow) // in a bubble
	}
	for name, end := range map[string]func(*rig, proxy.Replies){"read": leave, "closed": closed} {
		t.Run(name, func(t *testing.T) {
			during(t, map[string][]string{"tools/call": {"slow\n" + made}}, func(_ *testing.T, r *rig) {
				end(r, r.begin())
				r.s.received("tools/call", "tasks/cancel t/1")
			})
			for _, answer := range []string{finished, "broken"} {
				during(t, map[string][]string{"tools/call": {"slow\n" + answer}}, func(_ *testing.T, r *rig) {
					replies := r.begin()
					if name == "read" {
						time.AfterFunc(slow/2, func() { r.ex.Cancel(proxy.ErrCancelled) })
						_, _ = replies.Next(time.Time{})
						r.close(replies)
					} else {
						closed(r, replies)
					}
					r.s.received("tools/call") // there is nothing to cancel
				})
			}
		})
	}
	for name, end := range map[string]func(*rig, proxy.Replies){
		"read": leave,
		"closed": func(r *rig, replies proxy.Replies) {
			r.close(replies)
			r.s.mu.Lock()
			if r.s.open != 1 || r.s.begun != 1 {
				r.t.Errorf("%d answers are open and %d cancellations pending, want one of each", r.s.open, r.s.begun)
			}
			r.s.mu.Unlock()
			time.Sleep(requestTime + time.Second) // in a bubble
		},
	} {
		t.Run("no task, "+name, func(t *testing.T) {
			during(t, map[string][]string{"tools/call": {""}}, func(t *testing.T, r *rig) {
				began := time.Now()
				end(r, r.begin())
				synctest.Wait()
				r.s.mu.Lock()
				defer r.s.mu.Unlock()
				if d := time.Since(began); r.s.open != 0 || r.s.begun != 0 || d < requestTime || d > requestTime+slow {
					t.Errorf("after %s %d answers are open, and %d cancellations pending", d, r.s.open, r.s.begun)
				}
			})
		})
	}
	during(t, map[string][]string{"tools/call": {""}}, func(_ *testing.T, r *rig) { // the upstream has been closed
		replies := r.begin()
		r.group.Close()
		r.close(replies)
		r.s.received("tools/call")
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
