package provider

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"dragoman/adapters/grpc/providerpb"
	"dragoman/internal/testkit"
	"dragoman/proxy"
)

func textOf(s string) *providerpb.Content {
	return &providerpb.Content{Kind: &providerpb.Content_Text{Text: s}}
}

func done(result *providerpb.CallToolResult) *providerpb.CallToolResponse {
	return &providerpb.CallToolResponse{Message: &providerpb.CallToolResponse_Result{Result: result}}
}

func part(c *providerpb.Content) *providerpb.CallToolResponse {
	return &providerpb.CallToolResponse{Message: &providerpb.CallToolResponse_Content{Content: c}}
}

// What a provider sends becomes a result of MCP. What makes no valid one is the provider's fault, and nothing of it reaches the client.
func TestResults(t *testing.T) {
	priority, size := proto.Float64(0.5), proto.Int64(7)
	for _, c := range []struct {
		name string
		sent []*providerpb.CallToolResponse
		want string
	}{
		{"nothing", []*providerpb.CallToolResponse{done(&providerpb.CallToolResult{})}, `{"content":[],` + info},
		{"parts first", []*providerpb.CallToolResponse{part(textOf("a")), part(textOf("\"b\n")), done(&providerpb.CallToolResult{Content: []*providerpb.Content{textOf("c")}})},
			`{"content":[{"type":"text","text":"a"},{"type":"text","text":"\"b\n"},{"type":"text","text":"c"}],` + info},
		{"failed", []*providerpb.CallToolResponse{done(&providerpb.CallToolResult{IsError: true, Content: []*providerpb.Content{textOf("no")}})},
			`{"content":[{"type":"text","text":"no"}],"isError":true,` + info},
		{"structured", []*providerpb.CallToolResponse{done(&providerpb.CallToolResult{StructuredContent: ` {"n":9007199254740993} `, Meta: `{"a":1}`})},
			`{"content":[{"type":"text","text":" {\"n\":9007199254740993} "}],"structuredContent":{"n":9007199254740993},"resultType":"complete","_meta":{"a":1,"io.modelcontextprotocol/serverInfo":{"name":"n","version":"v"}}}`},
		{"every kind", []*providerpb.CallToolResponse{done(&providerpb.CallToolResult{Content: []*providerpb.Content{
			{Kind: &providerpb.Content_Image{Image: &providerpb.Blob{Data: []byte{0, 255}, MimeType: "image/png"}}, Annotations: &providerpb.Annotations{Audience: []string{"user"}, Priority: priority, LastModified: "2026-01-01T00:00:00Z"}},
			{Kind: &providerpb.Content_Audio{Audio: &providerpb.Blob{MimeType: "audio/wav"}}, Meta: `{"m":1}`},
			{Kind: &providerpb.Content_Link{Link: &providerpb.Resource{Uri: "a:b", Name: "l", Title: "t", Description: "d", MimeType: "m", Size: size, Icons: []*providerpb.Icon{{Src: "s", MimeType: "i", Sizes: []string{"any"}, Theme: "dark"}, {Src: "2"}}, Annotations: &providerpb.Annotations{Priority: priority}}}},
			{Kind: &providerpb.Content_Resource{Resource: &providerpb.ResourceContents{Uri: "a:b", Contents: &providerpb.ResourceContents_Blob{Blob: []byte("x")}}}},
			{Kind: &providerpb.Content_Resource{Resource: &providerpb.ResourceContents{Uri: "a:b", MimeType: "text/plain", Contents: &providerpb.ResourceContents_Text{Text: "x"}, Meta: `{}`}}},
			{Kind: &providerpb.Content_Json{Json: `{"type":"later"}`}}}})},
			`{"content":[{"type":"image","data":"AP8=","mimeType":"image/png","annotations":{"audience":["user"],"priority":0.5,"lastModified":"2026-01-01T00:00:00Z"}},` +
				`{"type":"audio","data":"","mimeType":"audio/wav","_meta":{"m":1}},` +
				`{"type":"resource_link","uri":"a:b","name":"l","title":"t","description":"d","mimeType":"m","size":7,"icons":[{"src":"s","mimeType":"i","sizes":["any"],"theme":"dark"},{"src":"2"}],"annotations":{"priority":0.5}},` +
				`{"type":"resource","resource":{"uri":"a:b","blob":"eA=="}},{"type":"resource","resource":{"uri":"a:b","mimeType":"text/plain","text":"x","_meta":{}}},{"type":"later"}],` + info},
		{"an injected member", []*providerpb.CallToolResponse{done(&providerpb.CallToolResult{StructuredContent: `{},"isError":true`})}, `[upstream_bad_answer]`},
		{"injected _meta", []*providerpb.CallToolResponse{done(&providerpb.CallToolResult{Meta: `1,"a":{}`})}, `[upstream_bad_answer]`},
		{"_meta that is no object", []*providerpb.CallToolResponse{done(&providerpb.CallToolResult{Meta: `[]`})}, `[upstream_bad_answer] the provider's meta is no JSON object`},
		{"content without a kind", []*providerpb.CallToolResponse{part(&providerpb.Content{})}, `[upstream_bad_answer]`},
		{"JSON content without a type", []*providerpb.CallToolResponse{part(&providerpb.Content{Kind: &providerpb.Content_Json{Json: `{}`}})}, `[upstream_bad_answer]`},
		{"no result", []*providerpb.CallToolResponse{part(textOf("a"))}, `[upstream_lost] the provider has ended the call without a result`},
		{"a message of a later version", []*providerpb.CallToolResponse{{}, done(&providerpb.CallToolResult{})}, `{"content":[],` + info},
		{"too much", []*providerpb.CallToolResponse{part(textOf(strings.Repeat("x", 1<<20)))}, `[response_too_large]`},
	} {
		r := newRig(t, &scripted{list: page(echo()), call: func(_ *providerpb.CallToolRequest, to grpc.ServerStreamingServer[providerpb.CallToolResponse]) error {
			for _, m := range c.sent {
				if err := to.Send(m); err != nil {
					return err
				}
			}
			return nil
		}}, asking)
		got := r.ask("tools/call", `"name":"echo.v1",`)
		if c.want[0] == '[' && !strings.HasPrefix(got, c.want) || c.want[0] == '{' && (result(got) != c.want || !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":"a\/1","result":`)) {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
}

// Arguments are checked before a call, and structured results after it (seed 002, FR-011).
func TestSchemas(t *testing.T) {
	tool := echo()
	tool.OutputSchema = `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`
	var seen []string
	answer := &providerpb.CallToolResult{}
	r := newRig(t, &scripted{list: page(tool), call: func(q *providerpb.CallToolRequest, to grpc.ServerStreamingServer[providerpb.CallToolResponse]) error {
		seen = append(seen, q.GetArguments())
		return to.Send(done(answer))
	}}, asking)
	for _, c := range []struct{ arguments, structured, want string }{
		{`"arguments":{"n":"x"},`, "", `{"content":[{"type":"text","text":"the arguments do not match the input schema of the tool: /n: must be integer, is string (type)"}],"isError":true,` + info},
		{`"arguments":{"n":1},`, `{"n":2}`, `{"content":[{"type":"text","text":"{\"n\":2}"}],"structuredContent":{"n":2},` + info},
		{"", `{"n":2}`, `{"content":[{"type":"text","text":"{\"n\":2}"}],"structuredContent":{"n":2},` + info},
		{`"arguments":null,`, `{"n":2}`, `{"content":[{"type":"text","text":"{\"n\":2}"}],"structuredContent":{"n":2},` + info},
		{"", `{"n":"x"}`, `[result_invalid] the provider's result of echo.v1 does not match the output schema of the tool: /n: must be integer, is string (type)`},
		{"", "", `[result_invalid] the provider's result of echo.v1 has no structured_content, which the output schema of the tool requires`},
	} {
		answer = &providerpb.CallToolResult{StructuredContent: c.structured}
		if got := r.ask("tools/call", `"name":"echo.v1",`+c.arguments); c.want[0] == '[' && got != c.want || c.want[0] == '{' && result(got) != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	if got := strings.Join(seen, " "); got != `{"n":1} {} {} {} {}` {
		t.Errorf("the provider has seen %s", got)
	}
	answer = &providerpb.CallToolResult{IsError: true}
	if got := r.ask("tools/call", `"name":"echo.v1",`); result(got) != `{"content":[],"isError":true,`+info {
		t.Error(got)
	}
}

// A provider is told nothing of a client that wants nothing, and logs have the names of their levels.
func TestWants(t *testing.T) {
	var wants *providerpb.Wants
	level := providerpb.LogLevel_LOG_LEVEL_UNSPECIFIED
	r := newRig(t, &scripted{list: page(echo()), call: func(q *providerpb.CallToolRequest, to grpc.ServerStreamingServer[providerpb.CallToolResponse]) error {
		wants = q.GetWants()
		if err := to.Send(&providerpb.CallToolResponse{Message: &providerpb.CallToolResponse_Log{Log: &providerpb.Log{Level: level}}}); err != nil {
			return err
		}
		return to.Send(done(&providerpb.CallToolResult{}))
	}}, asking)
	ask := func(more, caps string) []string {
		return r.all(r.exchange("tools/call", `"name":"echo.v1",`, `"_meta":{`+more+`"io.modelcontextprotocol/clientCapabilities":`+caps+`}`))
	}
	if got := ask("", "{}"); len(got) != 1 || wants != nil {
		t.Errorf("%s %v", got, wants)
	}
	if ask("", `{"a":{}}`); wants.GetCapabilities() != `{"a":{}}` || wants.GetProgress() || wants.GetLog() != 0 {
		t.Error(wants)
	}
	if ask(`"progressToken":1,`, "{}"); wants.GetCapabilities() != "" || !wants.GetProgress() {
		t.Error(wants)
	}
	for n, name := range map[int32]string{1: "debug", 2: "info", 7: "alert", 8: "emergency", 9: "info"} {
		level = providerpb.LogLevel(n)
		if got := ask(`"io.modelcontextprotocol/logLevel":"debug",`, "{}"); len(got) != 2 || !strings.Contains(got[0], `"level":"`+name+`"`) {
			t.Errorf("%d: %s, want %s", n, got, name)
		}
	}
}

// Progress and logs reach the client that asked for them, in their order, and no other.
func TestProgressAndLogs(t *testing.T) {
	var wants []*providerpb.Wants
	var of []string
	r := newRig(t, &scripted{list: page(echo()), call: func(q *providerpb.CallToolRequest, to grpc.ServerStreamingServer[providerpb.CallToolResponse]) error {
		wants, of = append(wants, q.GetWants()), append(of, q.GetMeta())
		for _, m := range []*providerpb.CallToolResponse{
			{Message: &providerpb.CallToolResponse_Progress{Progress: &providerpb.Progress{Progress: 1}}},
			{Message: &providerpb.CallToolResponse_Log{Log: &providerpb.Log{Level: providerpb.LogLevel_LOG_LEVEL_DEBUG, Data: `"quiet"`}}},
			{Message: &providerpb.CallToolResponse_Log{Log: &providerpb.Log{Level: providerpb.LogLevel_LOG_LEVEL_WARNING, Logger: "l", Data: `{"a":1}`}}},
			{Message: &providerpb.CallToolResponse_Log{Log: &providerpb.Log{Level: 99, Data: "no JSON"}}},
			{Message: &providerpb.CallToolResponse_Progress{Progress: &providerpb.Progress{Progress: 2.5, Total: proto.Float64(3), Message: "m"}}},
			done(&providerpb.CallToolResult{}),
		} {
			if err := to.Send(m); err != nil {
				return err
			}
		}
		return nil
	}}, asking)
	if got := r.all(r.exchange("tools/call", `"name":"echo.v1",`, meta)); len(got) != 1 {
		t.Errorf("nothing was asked for: %s", got)
	}
	full := strings.Replace(meta, `"_meta":{`, `"_meta":{"own":[1],"traceparent":"x","progressToken":7,"io.modelcontextprotocol/logLevel":"info",`, 1)
	got := strings.Join(r.all(r.exchange("tools/call", `"name":"echo.v1",`, full)), "\n")
	want := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}
{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","logger":"l","data":{"a":1}}}
{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"no JSON"}}
{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":2.5,"total":3,"message":"m"}}
{"jsonrpc":"2.0","id":"a\/1","result":{"content":[],` + info + `}`
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if wants[0].GetProgress() || wants[0].GetLog() != 0 || wants[0].GetCapabilities() != `{"elicitation":{},"sampling":{},"roots":{}}` || !wants[1].GetProgress() || wants[1].GetLog() != providerpb.LogLevel_LOG_LEVEL_INFO || of[0] != "" || of[1] != `{"own":[1]}` {
		t.Errorf("the provider was asked for %v, %q", wants, of)
	}
}

// A call has the metadata of its request, and ends when the client leaves.
func TestCancel(t *testing.T) {
	began, ended := make(chan metadata.MD, 1), make(chan struct{}, 1)
	r := newRig(t, &scripted{list: page(echo()), call: func(_ *providerpb.CallToolRequest, to grpc.ServerStreamingServer[providerpb.CallToolResponse]) error {
		md, _ := metadata.FromIncomingContext(to.Context())
		began <- md
		<-to.Context().Done()
		ended <- struct{}{}
		return to.Context().Err()
	}}, asking)
	ex := r.exchange("tools/call", `"name":"echo.v1",`, meta)
	ex.Client.Info, ex.RequestID = []byte(`{"name":"cli€nt","version":"1.0"}`), "the-id"
	ex.GiveUp(time.Minute)
	replies, err := r.u.Call(ex)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replies.Next(time.Now().Add(time.Millisecond)); err != proxy.ErrNotYet {
		t.Errorf("%v", err)
	}
	var md metadata.MD
	for md == nil { // the list is read first
		if _, err := replies.Next(time.Now().Add(time.Millisecond)); err != proxy.ErrNotYet {
			t.Fatal(err)
		}
		select {
		case md = <-began:
		default:
		}
	}
	for key, want := range map[string]string{"x-correlation-id": "the-id", "x-client-info": "cli?nt/1.0"} {
		if got := md.Get(key); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q", key, got)
		}
	}
	if at, err := time.Parse(time.RFC3339Nano, strings.Join(md.Get("x-correlation-time"), "")); err != nil || time.Since(at) > time.Minute {
		t.Errorf("%v %v", at, err)
	}
	ex.Cancel(proxy.ErrCancelled)
	testkit.Receive(t, "the end at the provider", ended)
	if _, err := replies.Next(time.Time{}); err != proxy.ErrCancelled {
		t.Errorf("%v", err)
	}
	if err := replies.Close(); err != nil {
		t.Error(err)
	}
}

// The deadline of a request is that of its call.
func TestDeadline(t *testing.T) {
	left := make(chan time.Duration, 1)
	r := newRig(t, &scripted{list: page(echo()), call: func(_ *providerpb.CallToolRequest, to grpc.ServerStreamingServer[providerpb.CallToolResponse]) error {
		at, ok := to.Context().Deadline()
		if !ok {
			at = time.Time{}
		}
		left <- time.Until(at)
		return to.Send(done(&providerpb.CallToolResult{}))
	}}, asking)
	ex := r.exchange("tools/call", `"name":"echo.v1",`, meta)
	ex.GiveUp(time.Hour)
	r.all(ex)
	if d := testkit.Receive(t, "the deadline", left); d < 59*time.Minute || d > time.Hour {
		t.Error(d)
	}
}

// A status is an error of the table; its details are data.
func TestStatuses(t *testing.T) {
	detailed := func(code codes.Code, details ...proto.Message) error {
		st := status.New(code, "m")
		for _, d := range details {
			st, _ = st.WithDetails(d.(interface {
				proto.Message
				Reset()
				String() string
				ProtoMessage()
			}))
		}
		return st.Err()
	}
	answer := error(nil)
	r := newRig(t, &scripted{list: page(echo()), call: func(*providerpb.CallToolRequest, grpc.ServerStreamingServer[providerpb.CallToolResponse]) error {
		return answer
	},
		read: func(context.Context, *providerpb.ReadResourceRequest) (*providerpb.ReadResourceResponse, error) {
			return nil, answer
		}}, asking)
	for _, c := range []struct {
		err  error
		want string
		data string
	}{
		{detailed(codes.NotFound), "[tool_not_found] the gRPC server answered NOT_FOUND: m", ""},
		{detailed(codes.InvalidArgument, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "a.b", Description: "d"}}}),
			"[arguments_invalid] the gRPC server answered INVALID_ARGUMENT: m", `{"code":"arguments_invalid","retryable":false,"grpc":"INVALID_ARGUMENT","details":[{"@type":"google.rpc.BadRequest","fieldViolations":[{"field":"a.b","description":"d"}]}]}`},
		{detailed(codes.ResourceExhausted, &errdetails.RetryInfo{RetryDelay: durationpb.New(1500 * time.Millisecond)}),
			"[upstream_rate_limited] the gRPC server answered RESOURCE_EXHAUSTED: m", `{"code":"upstream_rate_limited","retryable":true,"retryAfter":2,"grpc":"RESOURCE_EXHAUSTED","details":[{"@type":"google.rpc.RetryInfo","retryDelay":"1.500s"}]}`},
		{detailed(codes.Unavailable, &errdetails.RetryInfo{}), "[upstream_overloaded] the gRPC server answered UNAVAILABLE: m", `{"code":"upstream_overloaded","retryable":true,"retryAfter":1,"grpc":"UNAVAILABLE","details":[{"@type":"google.rpc.RetryInfo"}]}`},
		{detailed(codes.Unavailable), "[upstream_lost] the gRPC server answered UNAVAILABLE: m", ""},
		{detailed(codes.FailedPrecondition), "[upstream_grpc_status] the gRPC server answered FAILED_PRECONDITION: m", ""},
	} {
		answer = c.err
		replies, err := r.u.Call(r.exchange("tools/call", `"name":"echo.v1",`, meta))
		if err == nil {
			_, err = replies.Next(time.Now().Add(10 * time.Second))
			_ = replies.Close()
		}
		e := proxy.AsError(err)
		if failed(err) != c.want || string(e.Data) != c.data {
			t.Errorf("%v: %s %s", c.err, failed(err), e.Data)
		}
	}
	for _, c := range []struct{ code, data, want string }{
		{"-32021", `{"requiredCapabilities":{}}`, `"error":{"code":-32021,"message":"m","data":{"requiredCapabilities":{}}}`},
		{"-1", "no JSON", `"error":{"code":-1,"message":"m"}}`},
		{"x", "", "[upstream_internal_error] "},
	} {
		answer = detailed(codes.Internal, &errdetails.ErrorInfo{Domain: "other"}, &errdetails.ErrorInfo{Domain: "mcp", Metadata: map[string]string{"code": c.code, "data": c.data}})
		if got := r.ask("tools/call", `"name":"echo.v1",`); !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s", c, got)
		}
	}
	answer = status.Error(codes.NotFound, "gone")
	replies, err := r.u.Call(r.exchange("resources/read", `"uri":"a:b",`, meta))
	if err == nil {
		_, err = replies.Next(time.Now().Add(10 * time.Second))
		_ = replies.Close()
	}
	if e := proxy.AsError(err); e.Code != proxy.CodeInvalidParams || string(e.Data) != `{"uri":"a:b"}` {
		t.Errorf("%v %s", err, e.Data)
	}
}

// A call that the provider does not answer in time ends with the limit of the request, whoever notices it first.
func TestLate(t *testing.T) {
	r := newRig(t, &scripted{list: page(echo()), call: func(_ *providerpb.CallToolRequest, to grpc.ServerStreamingServer[providerpb.CallToolResponse]) error {
		<-to.Context().Done()
		return to.Context().Err()
	}}, asking)
	ex := r.exchange("tools/call", `"name":"echo.v1",`, meta)
	ex.GiveUp(20 * time.Millisecond)
	if got := r.all(ex); got[0] != "[upstream_timeout] no response in 20ms, the most that limits.request_time allows" {
		t.Error(got)
	}
}
