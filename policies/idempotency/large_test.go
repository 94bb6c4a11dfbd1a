package idempotency

import (
	"strings"
	"testing"

	"dragoman/proxy"
)

// The fingerprint of a large request is computed only when it is needed. Large requests are distinguished as small ones are.
func TestLargeRequestsAreToldApart(t *testing.T) {
	of := func(last string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":"` + strings.Repeat("x", largeRequest) + last + `"}}}`
	}
	large := `{"jsonrpc":"2.0","id":1,"result":{"x":"` + strings.Repeat("x", maxResponse) + `"}}`
	for _, c := range []struct{ name, answer, again, other, counted string }{
		{"an answer that is kept", aResult, aReplay, "error duplicate_request_id", "other_message"},
		{"one that is not", large, "error duplicate_request_id", "error duplicate_request_id", "not_kept"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newCallsRig(t, nil)
			a := r.ask(of("a"), nil)
			s := r.served()
			s.say <- c.answer
			a.gets(c.answer)
			wait(t, "the first's end", s.closed)
			overwrite(a.ex) // its memory is reused
			r.ask(of("b"), nil).gets(c.other)
			r.counted(c.counted, 1)
			r.ask(of("a"), nil).gets(c.again)

			// The same while it runs.
			named := func(ex *proxy.Exchange) { ex.Key = "l" }
			a = r.ask(of("a"), named)
			s = r.served()
			r.ask(of("b"), named).gets("error duplicate_request_id")
			b := r.ask(of("a"), named)
			r.waiting(1)
			s.say <- c.answer
			a.gets(c.answer)
			b.gets(c.again)
			wait(t, "its end", s.closed)
			overwrite(a.ex)
			r.ask(of("a"), named).gets(c.again)
			r.none()
		})
	}
}

// Later requests are compared with the duplicate that took a large request over.
func TestLargeRequestsAreTakenOver(t *testing.T) {
	of := func(last string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":"` + strings.Repeat("x", largeRequest) + last + `"}}}`
	}
	r := newCallsRig(t, nil)
	a := r.ask(of("a"), nil)
	s := r.served()
	b := r.ask(of("a"), nil)
	r.waiting(1)
	a.ex.Cancel(proxy.ErrCancelled)
	a.gets("error cancelled")
	wait(t, "the first's end", s.closed)
	s = r.served()
	overwrite(a.ex)
	r.ask(of("b"), nil).gets("error duplicate_request_id")
	s.say <- aResult
	b.gets(aResult)
	wait(t, "the second's end", s.closed)
	overwrite(b.ex)
	r.ask(of("b"), nil).gets("error duplicate_request_id")
	r.ask(of("a"), nil).gets(aReplay)
	r.none()
}

// overwrite overwrites the message of a request that is over.
func overwrite(ex *proxy.Exchange) { clear(ex.Msg.Raw) }
