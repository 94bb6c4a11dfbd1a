package channel

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	spb "google.golang.org/genproto/googleapis/rpc/status"

	"dragoman/proxy"
)

// Every code has a row, and says so by its name.
func TestCodes(t *testing.T) {
	for code := codes.Code(1); code <= codes.Unauthenticated; code++ {
		want, ok := rows[code]
		if !ok {
			t.Errorf("%v has no row", code)
		}
		e := Fault(status.New(code, "said"), false)
		if code == codes.Unavailable {
			if e.Name != proxy.Unreachable.Name || e.Message != "the gRPC server cannot be reached: said" || e.Cause == nil {
				t.Error(e)
			}
			continue
		}
		if e.Name != want.Name || !strings.Contains(e.Message, " "+names[code]+": said") || e.Cause == nil {
			t.Errorf("%v: %v", code, e)
		}
	}
	if e := Fault(status.New(99, ""), false); e.Name != proxy.GRPCStatus.Name || e.Message != "the gRPC server answered an unknown status" {
		t.Error(e)
	}
	if e := Fault(status.New(codes.Unavailable, ""), true); e.Name != proxy.Lost.Name || e.Retryable {
		t.Error(e)
	}
	if e := Fault(status.New(codes.ResourceExhausted, tooLarge+" (5 vs. 4)"), true); e.Name != proxy.ResponseTooLarge.Name {
		t.Error(e)
	}
	if e := Fault(status.New(codes.Internal, "a\x00b"), true); strings.ContainsRune(e.Message, 0) {
		t.Errorf("%q", e.Message)
	}
}

// Each row of the error table has a code.
func TestCode(t *testing.T) {
	special := map[string]codes.Code{proxy.Cancelled.Name: codes.Canceled, proxy.ToolUnknown.Name: codes.NotFound, proxy.BadCredentials.Name: codes.Unauthenticated,
		proxy.PolicyDenied.Name: codes.PermissionDenied, proxy.MissingCapability.Name: codes.Unimplemented, proxy.Unanswered.Name: codes.Aborted, proxy.UpstreamTimeout.Name: codes.DeadlineExceeded,
		proxy.InvalidParams.Name: codes.InvalidArgument, proxy.TooFast.Name: codes.ResourceExhausted, proxy.Busy.Name: codes.Unavailable, proxy.Internal.Name: codes.Internal, proxy.BadAnswer.Name: codes.Unknown}
	for _, f := range proxy.Faults() {
		got := Code(&proxy.Error{Fault: f})
		if want, ok := special[f.Name]; ok && got != want || got == codes.OK {
			t.Errorf("%s: %v", f.Name, got)
		}
	}
}

// Details are JSON, those of unknown types are left out, and no more than a bound reaches a client.
func TestDetails(t *testing.T) {
	pack := func(m ...*anypb.Any) *status.Status {
		return status.FromProto(&spb.Status{Code: int32(codes.Aborted), Details: m})
	}
	some, err := anypb.New(&errdetails.ErrorInfo{Reason: "R"})
	if err != nil {
		t.Fatal(err)
	}
	large, err := anypb.New(&errdetails.ErrorInfo{Reason: strings.Repeat("x", maxDetails)})
	if err != nil {
		t.Fatal(err)
	}
	empty, err := anypb.New(&errdetails.RetryInfo{})
	if err != nil {
		t.Fatal(err)
	}
	unknown := &anypb.Any{TypeUrl: "type.googleapis.com/no.Such", Value: []byte{1}}
	for want, st := range map[string]*status.Status{
		"": pack(), `[{"@type":"google.rpc.ErrorInfo","reason":"R"},{"@type":"google.rpc.RetryInfo"}]`: pack(unknown, some, large, empty)} {
		if got := string(Details(st)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if Details(pack(unknown, large)) != nil {
		t.Error("details without any")
	}
	if text, refused := Refusal(proxy.Errf(proxy.Lost, "no status")); refused || text != "" {
		t.Error(text)
	}
	refusing := []codes.Code{codes.Unknown, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.Aborted, codes.OutOfRange}
	for code := codes.Code(1); code <= codes.Unauthenticated; code++ {
		if _, refused := Refusal(Fault(status.New(code, ""), true)); refused != slices.Contains(refusing, code) {
			t.Errorf("%v: %t", code, refused)
		}
	}
}

// The name and version of a client are printable ASCII of bounded length.
func TestClientInfo(t *testing.T) {
	for info, want := range map[string]string{"": "", "7": "", `{"name":"a","version":"1"}`: "a/1", `{"name":"a"}`: "a", `{"version":"1"}`: "", `{"name":" \u00e9\n"}`: "??",
		`{"name":"` + strings.Repeat("x", 300) + `"}`: strings.Repeat("x", 256)} {
		if got := clientInfo([]byte(info)); got != want {
			t.Errorf("%s: %q, want %q", info, got, want)
		}
	}
}
