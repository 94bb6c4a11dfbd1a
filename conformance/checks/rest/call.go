package rest

import (
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/goccy/go-json"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

var restFace = []peer.Face{peer.REST}

// restCodes returns the codes of the envelope with their statuses.
func restCodes() map[string]int {
	return map[string]int{"TOOL_NOT_FOUND": 404, "INVALID_ARGUMENTS": 400, "EXECUTION_ERROR": 500, "INTERNAL_ERROR": 500, "TIMEOUT": 504,
		"RATE_LIMITED": 429, "SERVICE_UNAVAILABLE": 503}
}

var (
	isUUID4     = regexp.MustCompile(`^(?i)[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	isTimestamp = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`) })
	isSemantic  = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
	})
	isName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })
)

// restAnswer is an answer of a service, with an envelope or without.
type restAnswer struct {
	status int
	kind   string // Content-Type
	text   string
	body   peer.Object // nil: not a JSON object
}

// String returns the answer for problems.
func (a restAnswer) String() string { return fmt.Sprintf("status %d: %s", a.status, a.text) }

// rest sends a request to a service. With a body and no method it is a POST.
func rest(t *suite.Trial, method, path, body string) restAnswer {
	head := peer.Fields{{Name: "Accept", Value: "application/json"}}
	if body != "" {
		head = append(head, peer.Field{Name: "Content-Type", Value: "application/json"})
	}
	res := t.Send(peer.Request{Method: method, URL: suite.RESTPath(t.Target, path), Header: head, Body: body})
	text, err := res.Text()
	if err != nil {
		t.Break("the answer to %s broke off: %v", path, err)
	}
	a := restAnswer{status: res.Status, kind: res.Type, text: text}
	if v, err := peer.Decode(text); err == nil {
		a.body, _ = v.(peer.Object)
	}
	return a
}

// restCall posts to /call-tool.
func restCall(t *suite.Trial, body string) restAnswer { return rest(t, "POST", "/call-tool", body) }

// unknownTool makes a call that must fail with TOOL_NOT_FOUND.
func unknownTool(t *suite.Trial) restAnswer {
	return restCall(t, `{"tool":"dragoman_no_such_tool","arguments":{}}`)
}

// restTools returns the tools of GET /tools.
func restTools(t *suite.Trial) []any {
	tools := peer.List(rest(t, "GET", "/tools", "").body, "tools")
	if len(tools) == 0 {
		t.Skip("the service has no tools")
	}
	return tools
}

// succeeded makes a call that succeeds, of a tool of the fixture or of the first that requires no arguments.
func succeeded(t *suite.Trial) restAnswer {
	name := ""
	for _, tool := range restTools(t) {
		own := peer.Text(tool, "name")
		if own == "test_simple_text" {
			name = own
			break
		}
		if name == "" && own == "echo" || name == "" && len(peer.List(tool, "input_schema", "required")) == 0 {
			name = own
		}
	}
	if name == "" {
		t.Skip("each tool requires arguments")
	}
	arguments := `{}`
	if name == "echo" {
		arguments = `{"message":"hello"}`
	}
	a := restCall(t, `{"tool":`+peer.Encode(name)+`,"arguments":`+arguments+`}`)
	if a.body["success"] != true && a.body["success"] != nil {
		t.Skip("the tool %s does not succeed with %s: %s", name, arguments, a)
	}
	return a
}

// natural reports whether a value is an integer of 0 or more.
func natural(v any) bool {
	n, ok := v.(json.Number)
	if !ok {
		return false
	}
	i, err := n.Int64()
	return err == nil && i >= 0
}

// rightTime returns the deviation of a timestamp, or "".
func rightTime(v any) string {
	text, _ := v.(string)
	if !isTimestamp().MatchString(text) {
		return "a timestamp with milliseconds and Z, as 2025-12-09T12:34:56.789Z"
	}
	if _, err := time.Parse(time.RFC3339Nano, text); err != nil {
		return "a timestamp that there is"
	}
	return ""
}

// failedAs fails the trial unless the answer is a failure with a code and its status.
func failedAs(t *suite.Trial, a restAnswer, code string) {
	want := restCodes()[code]
	if a.status != want || a.body["success"] != false || a.body["code"] != code {
		t.Fail(fmt.Sprintf("status %d and an envelope with success false and code %s", want, code), "%s", a)
	}
}
