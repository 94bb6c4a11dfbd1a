package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

type refusal struct{ text string }

func (r *refusal) Error() string   { return "HTTP 418: " + r.text }
func (r *refusal) HTTPStatus() int { return 418 }

// What others are told of a failed request says what kind of error it was, and nothing that a peer wrote.
func TestGist(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, c := range []struct {
		err  error
		want string
	}{
		{Errf(BadAnswer, "the server said %q", "of alice"), "upstream_bad_answer"},
		{Errf(HTTPStatus, "it answered %w", &refusal{"of alice"}), "upstream_http_status, HTTP 418"},
		{&refusal{"of alice"}, "HTTP 418"},
		{Errf(Unreachable, "alice: %w", refused), "upstream_unreachable, " + syscall.ECONNREFUSED.Error()},
		{refused, syscall.ECONNREFUSED.Error()},
		{fmt.Errorf("alice: %w", context.DeadlineExceeded), "upstream_timeout"},
		{errors.New("of alice"), "internal"},
	} {
		if got := Gist(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
	e := Errf(HTTPStatus, "it answered %w", &refusal{"of alice"})
	e.RetryAfter, e.Data = 7, []byte(`{"of":"alice"}`)
	told := AsError(Told(e))
	if told.Name != e.Name || told.RetryAfter != 7 || strings.Contains(string(told.AppendJSON(nil)), "alice") || !strings.Contains(told.Message, "upstream_http_status, HTTP 418") {
		t.Errorf("%+v", told)
	}
	if status := (*refusal)(nil); !errors.As(told, &status) {
		t.Error("the log has lost the cause")
	}
	if err := Told(io.EOF); err != io.EOF {
		t.Error(err)
	}
}

// A message that was not sent has an error of its own, behind which is the link's end.
func TestUnsent(t *testing.T) {
	end := Errf(Lost, "it has exited")
	e := Unsent(end)
	if e.Name != SessionLost.Name || e.Message != end.Message || Ended(e) != error(end) || Ended(fmt.Errorf("a call: %w", e)) != error(end) {
		t.Errorf("%+v", e)
	}
	for _, err := range []error{end, io.EOF, Errf(SessionLost, "unknown"), &Error{Fault: SessionLost, Cause: io.EOF}, &Error{Fault: Lost, Cause: e}} {
		if got := Ended(err); got != err {
			t.Errorf("%v: %v", err, got)
		}
	}
	if err := Ended(nil); err != nil {
		t.Error(err)
	}
}
