package channel

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-json"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// maxDetails bounds the details of a status that reach a client, in bytes of JSON.
const maxDetails = 8 << 10

// rows are the rows of the error table by the code of a status. What NOT_FOUND is about only the caller knows.
var rows = map[codes.Code]proxy.Fault{
	codes.Canceled:           proxy.Lost,
	codes.Unknown:            proxy.GRPCStatus,
	codes.InvalidArgument:    proxy.ArgumentsInvalid,
	codes.DeadlineExceeded:   proxy.UpstreamTimeout,
	codes.NotFound:           proxy.InvalidParams,
	codes.AlreadyExists:      proxy.GRPCStatus,
	codes.PermissionDenied:   proxy.Refused,
	codes.ResourceExhausted:  proxy.UpstreamLimited,
	codes.FailedPrecondition: proxy.GRPCStatus,
	codes.Aborted:            proxy.GRPCStatus,
	codes.OutOfRange:         proxy.GRPCStatus,
	codes.Unimplemented:      proxy.MethodNotFound,
	codes.Internal:           proxy.UpstreamFailed,
	codes.Unavailable:        proxy.Unreachable,
	codes.DataLoss:           proxy.UpstreamFailed,
	codes.Unauthenticated:    proxy.Refused,
}

// tooLarge is how grpc-go begins its own message about a message of the server that is larger than allowed.
const tooLarge = "grpc: received message larger than max"

// broke are how grpc-go begins its own messages about a connection that has ended under a call.
var broke = []string{"error reading from server", "closing transport due to", "connection error", "keepalive ping failed", "transport is closing", "the connection is draining"}

// Fault returns the error of the table for a status; sent says that the server may have begun the call, which must not be repeated then.
func Fault(st *status.Status, sent bool) *proxy.Error {
	row, known := rows[st.Code()]
	if !known {
		row = proxy.GRPCStatus
	}
	switch {
	case st.Code() == codes.Unavailable && sent && slices.ContainsFunc(broke, func(words string) bool { return strings.HasPrefix(st.Message(), words) }):
		e := proxy.Errf(proxy.Lost, "the connection to the gRPC server broke before its response%s", said(st.Message()))
		e.Cause = st.Err()
		return e
	case st.Code() == codes.Unavailable && sent:
		row = proxy.Lost
	case st.Code() == codes.Unavailable && len(st.Details()) == 0:
		e := proxy.Errf(proxy.Unreachable, "the gRPC server cannot be reached%s", said(st.Message()))
		e.Cause = st.Err()
		return e
	case st.Code() == codes.ResourceExhausted && strings.HasPrefix(st.Message(), tooLarge):
		return proxy.Errf(proxy.ResponseTooLarge, "a message of the gRPC server is larger than limits.response_body allows (%s)", st.Message())
	}
	e := proxy.Errf(row, "the gRPC server answered %s%s", codeName(st.Code()), said(st.Message()))
	e.Cause = st.Err()
	if row.Name == proxy.Refused.Name {
		e.Message += "; set the credentials in upstreams.NAME.headers, or pass the client's on with forward_headers"
	}
	detail(e, st)
	return e
}

func said(message string) string {
	if message == "" {
		return ""
	}
	return ": " + wire.Shown(message)
}

// codeName returns the name of a code as the specification writes it: NOT_FOUND.
func codeName(code codes.Code) string {
	if code > codes.Unauthenticated {
		return "an unknown status"
	}
	return names[code]
}

var names = [...]string{"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
	"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"}

// detail adds the details of a status to an error: RetryInfo as its RetryAfter, and all that are known as JSON in its data.
func detail(e *proxy.Error, st *status.Status) {
	details := Details(st)
	for _, d := range st.Details() {
		if retry, ok := d.(*errdetails.RetryInfo); ok {
			wait := retry.GetRetryDelay().AsDuration()
			e.RetryAfter = int(max(1, (wait.Milliseconds()+999)/1000))
			if st.Code() == codes.Unavailable {
				e.Fault = proxy.Overloaded
			}
		}
	}
	if details == nil {
		return
	}
	retry := ""
	if e.RetryAfter > 0 {
		retry = `,"retryAfter":` + strconv.Itoa(e.RetryAfter)
	}
	e.Data = []byte(`{"code":"` + e.Name + `","retryable":` + strconv.FormatBool(e.Retryable) + retry + `,"grpc":"` + codeName(st.Code()) + `","details":` + string(details) + `}`)
}

// Details returns the details of a status that are known messages (google.rpc), a JSON array; nil if there are none, or too many.
func Details(st *status.Status) []byte {
	out := []byte{'['}
	for _, d := range st.Details() {
		m, ok := d.(proto.Message)
		if !ok { // of an unknown type, or broken
			continue
		}
		raw, err := protojson.Marshal(m)
		if err != nil || len(out)+len(raw) > maxDetails {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		name := string(proto.MessageName(m))
		out = append(out, compact(raw, `"@type":"`+name+`"`)...)
	}
	if len(out) == 1 {
		return nil
	}
	return append(out, ']')
}

// Refusal reports whether a status says that the service has refused this very request, and returns what it says, with its details as JSON. Such a
// refusal is a result of a tool, which a model may correct, rather than an error.
func Refusal(err error) (text string, refused bool) {
	st, ok := status.FromError(proxy.AsError(err).Cause)
	if !ok {
		return "", false
	}
	switch st.Code() {
	case codes.Unknown, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.Aborted, codes.OutOfRange:
	default:
		return "", false
	}
	text = codeName(st.Code())
	if st.Message() != "" {
		text += ": " + st.Message()
	}
	if details := Details(st); details != nil {
		text += "\n" + string(details)
	}
	return text, true
}

// MCPError returns the error of MCP that a status is, a JSON object; nil if it is none. Such a status has a google.rpc.ErrorInfo of the domain
// "mcp", whose metadata have the code, and the data as JSON.
func MCPError(err error) []byte {
	st, ok := status.FromError(proxy.AsError(err).Cause)
	if !ok {
		return nil
	}
	for _, d := range st.Details() {
		of, ok := d.(*errdetails.ErrorInfo)
		if !ok || of.GetDomain() != "mcp" {
			continue
		}
		code, err := strconv.Atoi(of.GetMetadata()["code"])
		if err != nil {
			return nil
		}
		b := wire.NewBuilder(nil)
		b.Add("code", strconv.AppendInt(nil, int64(code), 10))
		b.Text("message", st.Message())
		data := []byte(of.GetMetadata()["data"])
		if at, err := wire.ScanValue(data); err == nil {
			b.Add("data", at.Of(data))
		}
		return b.Done()
	}
	return nil
}

// Code returns the code of a status that says the same as an error of the table: by its row, else by what REST callers are told.
func Code(e *proxy.Error) codes.Code {
	switch e.Name {
	case proxy.Cancelled.Name:
		return codes.Canceled
	case proxy.ToolUnknown.Name, proxy.ServerUnknown.Name, proxy.SessionUnknown.Name:
		return codes.NotFound
	case proxy.Unauthenticated.Name, proxy.BadCredentials.Name:
		return codes.Unauthenticated
	case proxy.InsufficientScope.Name, proxy.PolicyDenied.Name, proxy.ForbiddenOrigin.Name:
		return codes.PermissionDenied
	case proxy.MissingCapability.Name, proxy.Question.Name, proxy.MethodNotFound.Name:
		return codes.Unimplemented
	case proxy.Unanswered.Name:
		return codes.Aborted
	case proxy.UpstreamTimeout.Name:
		return codes.DeadlineExceeded
	}
	switch e.Envelope {
	case proxy.BadArguments:
		return codes.InvalidArgument
	case proxy.RateLimited:
		return codes.ResourceExhausted
	case proxy.Unavailable:
		return codes.Unavailable
	case proxy.NoSuchTool:
		return codes.NotFound
	case proxy.TimedOut:
		return codes.DeadlineExceeded
	case proxy.Broken:
		return codes.Internal
	}
	return codes.Unknown
}

// compact returns a JSON object as protojson writes it without the white space, which differs from build to build, and with members, raw
// JSON without braces, before its own.
func compact(raw []byte, members string) []byte {
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil || out.Len() <= len("{}") {
		return []byte("{" + members + "}")
	}
	return append([]byte("{"+members+","), out.Bytes()[1:]...)
}
