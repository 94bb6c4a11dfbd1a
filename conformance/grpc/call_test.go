package services

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// outcome is how a call has ended.
type outcome struct {
	status, message string     // OK, or what gRPC says
	result          string     // JSON; of a stream all messages
	parts           func() int // messages of a stream; of a client: notifications of progress so far
	row             string     // the row of Dragoman's error table; "" is a result, also one with isError
}

func (o outcome) String() string {
	if o.status == "OK" {
		return fmt.Sprintf("OK %.300s", o.result)
	}
	return fmt.Sprintf("%s %q [%s]", o.status, o.message, o.row)
}

// codeName returns the name of a status as gRPC's specification writes it.
func codeName(code codes.Code) string {
	if code == codes.Canceled {
		return "CANCELLED"
	}
	return strings.ToUpper(word.ReplaceAllString(code.String(), "${1}_$2"))
}

var word = regexp.MustCompile("([a-z])([A-Z])")

// direct calls a method with grpc-go, without Dragoman. Its messages are dynamic ones, translated by package protojson.
func (s *server) direct(t *testing.T, method protoreflect.MethodDescriptor, arguments, token string, endless bool) (o outcome) {
	t.Helper()
	limit := patient
	if endless {
		limit = toolTimeout
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "token", token)
	}
	request := dynamicpb.NewMessage(method.Input())
	if err := (protojson.UnmarshalOptions{Resolver: s.types}).Unmarshal([]byte(arguments), request); err != nil {
		t.Fatalf("%s: %v", arguments, err)
	}
	json := func(m *dynamicpb.Message) string {
		raw, err := protojson.MarshalOptions{Resolver: s.types, EmitDefaultValues: true}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	of := fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name())
	if !method.IsStreamingServer() {
		answer := dynamicpb.NewMessage(method.Output())
		if err := s.conn.Invoke(ctx, of, request, answer); err != nil {
			return failed(err)
		}
		return outcome{status: "OK", result: json(answer)}
	}
	stream, err := s.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, of)
	if err != nil {
		return failed(err)
	}
	if err := stream.SendMsg(request); err != nil {
		return failed(err)
	}
	if err := stream.CloseSend(); err != nil {
		return failed(err)
	}
	var messages []string
	count := func() int { return len(messages) }
	for {
		answer := dynamicpb.NewMessage(method.Output())
		switch err := stream.RecvMsg(answer); {
		case errors.Is(err, io.EOF):
			return outcome{status: "OK", result: `{"messages":[` + strings.Join(messages, ",") + `]}`, parts: count}
		case err != nil:
			o = failed(err)
			o.parts = count
			return o
		}
		messages = append(messages, json(answer))
	}
}

func failed(err error) outcome {
	st := status.Convert(err)
	return outcome{status: codeName(st.Code()), message: st.Message()}
}

// way is an MCP client at an endpoint of Dragoman.
type way struct {
	name    string
	prefix  string // of names of tools
	session *mcp.ClientSession

	mu    sync.Mutex
	calls int
	parts map[string]int // progress notifications of a call, by its token
}

// header adds a header to each request.
type header struct{ name, value string }

func (h header) RoundTrip(r *http.Request) (*http.Response, error) {
	if h.value != "" {
		r = r.Clone(r.Context())
		r.Header.Set(h.name, h.value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// newWay connects a client of a revision, which sends a token of etcd unless that is "".
func newWay(t *testing.T, name, endpoint, revision, token string) *way {
	t.Helper()
	w := &way{name: name, parts: map[string]int{}}
	client := mcp.NewClient(&mcp.Implementation{Name: "services", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, q *mcp.ProgressNotificationClientRequest) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.parts[fmt.Sprint(q.Params.ProgressToken)]++
		}})
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: endpoint, HTTPClient: &http.Client{Transport: header{"Token", token}},
		MaxRetries: -1}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	t.Cleanup(func() { session.Close() })
	if got := session.InitializeResult().ProtocolVersion; got != revision {
		t.Fatalf("%s speaks %s", name, got)
	}
	w.session = session
	return w
}

// tools returns the tools of a server, by their names without the prefix. At the merged endpoint these come when the server has been read.
func (w *way) tools(t *testing.T) map[string]*mcp.Tool {
	t.Helper()
	all := map[string]*mcp.Tool{}
	eventually(t, w.name+" lists the tools", func() bool {
		for tool, err := range w.session.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatalf("%s: %v", w.name, err)
			}
			if name, ok := strings.CutPrefix(tool.Name, w.prefix); ok {
				all[name] = tool
			}
		}
		return len(all) > 0
	})
	return all
}

var answered = regexp.MustCompile(`^the gRPC server answered ([A-Z_]+|an unknown status)(?:: ((?s).*))?$`)

// advice matches the words that Dragoman adds to a service's message.
var advice = regexp.MustCompile(`; (set the credentials in upstreams\.NAME\.headers, or pass the client's on with forward_headers|` +
	`tools/call of \S+ had been under way for \S+ at the upstream server "[a-z]+", and may have been carried out)$`)

// call calls a tool.
func (w *way) call(t *testing.T, tool, arguments string) (o outcome) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	w.mu.Lock()
	w.calls++
	token := fmt.Sprint("call-", w.calls)
	w.mu.Unlock()
	params := &mcp.CallToolParams{Name: w.prefix + tool, Arguments: json.RawMessage(arguments)}
	params.SetProgressToken(token)
	result, err := w.session.CallTool(ctx, params)
	if err != nil {
		return w.failure(t, err, token)
	}
	if len(result.Content) != 1 {
		t.Fatalf("%s %s: %d contents", w.name, tool, len(result.Content))
	}
	text := result.Content[0].(*mcp.TextContent).Text
	if result.IsError {
		text, _, _ = strings.Cut(text, "\n[{\"@type\"") // the details of the status
		o.status, o.message, _ = strings.Cut(text, ": ")
		return o
	}
	if !equal(decoded(t, text), decoded(t, encoded(t, result.StructuredContent))) {
		t.Errorf("%s %s: the text differs from the structured content: %.400s, %.400s", w.name, tool, text, encoded(t, result.StructuredContent))
	}
	return outcome{status: "OK", result: text, parts: func() int { return w.progress(token) }}
}

func (w *way) progress(token string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.parts[token]
}

// failure reads an error of Dragoman.
func (w *way) failure(t *testing.T, err error, token string) outcome {
	t.Helper()
	var e *jsonrpc.Error
	if !errors.As(err, &e) {
		t.Fatalf("%s: no error of JSON-RPC: %v", w.name, err)
	}
	var data struct{ Code, GRPC string }
	switch err := json.Unmarshal(e.Data, &data); {
	case e.Code == -32601 && len(e.Data) == 0: // an error of JSON-RPC itself
		data.Code = "method_not_found"
	case err != nil || data.Code == "":
		t.Errorf("%s: an error without data: %v %s", w.name, e, e.Data)
	}
	o := outcome{row: data.Code, message: e.Message, parts: func() int { return w.progress(token) }}
	if m := answered.FindStringSubmatch(e.Message); m != nil {
		o.status, o.message = m[1], advice.ReplaceAllString(m[2], "")
	}
	return o
}
