package channel

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"dragoman/proxy"
)

// failing returns the error of a status with details.
func failing(t *testing.T, code codes.Code, text string, details ...protoadapt.MessageV1) error {
	t.Helper()
	st, err := status.New(code, text).WithDetails(details...)
	if err != nil {
		t.Fatal(err)
	}
	return Fault(st, true)
}

// A refusal has the name of its status, its text and its details, as far as there are any.
func TestRefusal(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{Fault(status.New(codes.Aborted, ""), true), "ABORTED"},
		{Fault(status.New(codes.Aborted, "busy"), true), "ABORTED: busy"},
		{failing(t, codes.Aborted, "busy", &errdetails.ErrorInfo{Reason: "R"}), "ABORTED: busy\n" + `[{"@type":"google.rpc.ErrorInfo","reason":"R"}]`},
	} {
		if got, refused := Refusal(c.err); got != c.want || !refused {
			t.Errorf("%q %t, want %q", got, refused, c.want)
		}
	}
	if text, refused := Refusal(Fault(status.New(codes.Internal, "x"), true)); text != "" || refused {
		t.Errorf("%q %t", text, refused)
	}
}

// A status is an error of MCP by an ErrorInfo of the domain mcp, which need not be its first detail.
func TestMCPError(t *testing.T) {
	info := func(domain string, metadata map[string]string) *errdetails.ErrorInfo {
		return &errdetails.ErrorInfo{Domain: domain, Metadata: metadata}
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{proxy.Errf(proxy.Lost, "no status"), ""},
		{Fault(status.New(codes.Aborted, "m"), true), ""},
		{failing(t, codes.Aborted, "m", info("other", map[string]string{"code": "-1"})), ""},
		{failing(t, codes.Aborted, "m", info("mcp", nil)), ""},
		{failing(t, codes.Aborted, "m", info("mcp", map[string]string{"code": "x"})), ""},
		{failing(t, codes.Aborted, "m", info("mcp", map[string]string{"code": "-32002"})), `{"code":-32002,"message":"m"}`},
		{failing(t, codes.Aborted, "\"", &errdetails.RetryInfo{}, info("other", nil), info("mcp", map[string]string{"code": "+7", "data": ` {"a":1} `})), `{"code":7,"message":"\"","data":{"a":1}}`},
		{failing(t, codes.Aborted, "m", info("mcp", map[string]string{"code": "1", "data": `{},"code":2`})), `{"code":1,"message":"m"}`},
	} {
		if got := string(MCPError(c.err)); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
}

// refusing are credentials that remember which of them were refused.
type refusing []string

func (r *refusing) Authorization(context.Context) (string, error) { return "", nil }

func (r *refusing) Refused(value string) { *r = append(*r, value) }

func (r *refusing) Hide(text string) string { return text }

// The exchange decides the error of a call that it has cancelled, or whose deadline it has set. Credentials learn that a server has refused them.
func TestFault(t *testing.T) {
	var told refusing
	c := &Channel{opt: Options{Credentials: &told}}
	cause := errors.New("left")
	cancelled := new(proxy.Exchange)
	cancelled.Cancel(cause)
	late := new(proxy.Exchange)
	late.GiveUp(time.Nanosecond)
	for _, x := range []struct {
		ex            *proxy.Exchange
		code          codes.Code
		authorization string
		want          string // row, or the cause
		told          int
	}{
		{cancelled, codes.Canceled, "", "left", 0}, {cancelled, codes.DeadlineExceeded, "", "left", 0}, {cancelled, codes.Internal, "", proxy.UpstreamFailed.Name, 0},
		{late, codes.DeadlineExceeded, "", proxy.UpstreamTimeout.Name, 0},
		{new(proxy.Exchange), codes.Canceled, "", proxy.Lost.Name, 0}, {new(proxy.Exchange), codes.Unauthenticated, "", proxy.Refused.Name, 0},
		{new(proxy.Exchange), codes.Unauthenticated, "Bearer x", proxy.Refused.Name, 1}, {new(proxy.Exchange), codes.PermissionDenied, "Bearer x", proxy.Refused.Name, 0},
	} {
		told = nil
		s := &Stream{c: c, ex: x.ex, authorization: x.authorization}
		got := s.fault(status.Error(x.code, "said"), true)
		if name := row(got); name != x.want && got.Error() != x.want || len(told) != x.told || x.told > 0 && told[0] != x.authorization {
			t.Errorf("%+v: %v, told %q", x, got, told)
		}
	}
	// A server's own deadline is no deadline of the exchange.
	early := new(proxy.Exchange)
	early.GiveUp(time.Hour)
	if err := (&Stream{c: c, ex: early}).fault(status.Error(codes.DeadlineExceeded, "said"), true); !strings.Contains(err.Error(), "said") {
		t.Error(err)
	}
}

// A call has the deadline of its exchange, unless that is far away, or the call may go on in another one.
func TestDeadline(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for limit, want := range map[time.Duration]bool{0: false, time.Minute: true, year - 1: true, year: false} {
		ex := new(proxy.Exchange)
		if limit > 0 {
			ex.GiveUp(limit)
		}
		got := deadline(ex, unary)
		if got.IsZero() == want || want && !got.Equal(ex.Began().Add(limit)) {
			t.Errorf("%v: %v", limit, got)
		}
		if got := deadline(ex, duplex); !got.IsZero() {
			t.Errorf("%v: %v for a call that may go on", limit, got)
		}
	}
}
