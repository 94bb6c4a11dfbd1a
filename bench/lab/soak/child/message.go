//go:build linux

package child

import (
	"encoding/json"
	"fmt"
	"strings"
)

// The revisions of the children.
const (
	modernVersion = "2026-07-28"
	legacyVersion = "2025-11-25"
)

// Arguments of the tool "echo", and of "ask", which uses Token only.
type Arguments struct {
	Token    string `json:"token"`              // returned at the beginning of the answer
	Size     int    `json:"size,omitempty"`     // bytes of filler after it
	DelayMS  int    `json:"delay_ms,omitempty"` // before the answer
	Progress int    `json:"progress,omitempty"` // number of notifications before it, if the request has a progress token
	Pad      string `json:"pad,omitempty"`      // ignored; makes the request long
}

// Filler fills an answer's text.
const Filler = "x"

// Text is the answer of "echo".
func (a Arguments) Text() string { return a.Token + ":" + strings.Repeat(Filler, a.Size) }

// message is the part of a message that children read.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string    `json:"name"`
		Arguments Arguments `json:"arguments"`
		Meta      struct {
			ProgressToken json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
		ProtocolVersion string          `json:"protocolVersion"`
		RequestID       json.RawMessage `json:"requestId"`
		InputResponses  map[string]any  `json:"inputResponses"`
		RequestState    string          `json:"requestState"`
		Notifications   json.RawMessage `json:"notifications"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

const (
	info      = `{"name":"soak","version":"1"}`
	caps      = `{"tools":{"listChanged":true},"logging":{}}`
	echoTool  = `{"name":"echo","description":"Returns its token.","inputSchema":{"type":"object","properties":{"token":{"type":"string"}}}}`
	askTool   = `{"name":"ask","description":"Asks before it answers.","inputSchema":{"type":"object","properties":{"token":{"type":"string"}}}}`
	tools     = `"tools":[` + echoTool + `,` + askTool + `]`
	complete  = `"resultType":"complete"`
	cacheable = complete + `,"ttlMs":1000,"cacheScope":"public"`
	question  = `{"message":"Go on?","requestedSchema":{"type":"object","properties":{"text":{"type":"string"}}}}`
	state     = "half-way"

	unknownMethod = `{"code":-32601,"message":"method not found"}`
	modernOnly    = `{"code":-32022,"message":"unsupported protocol version","data":{"supported":["` + modernVersion + `"],"requested":"` + legacyVersion + `"}}`
)

// answer is the member of the response to a request other than a call: `"result":…` or `"error":…`.
func answer(m *message, modern bool) string {
	switch {
	case m.Method == "tools/list" && modern:
		return `"result":{` + cacheable + `,` + tools + `}`
	case m.Method == "tools/list":
		return `"result":{` + tools + `}`
	case m.Method == "server/discover" && modern:
		return `"result":{` + cacheable + `,"supportedVersions":["` + modernVersion + `"],"capabilities":` + caps +
			`,"_meta":{"io.modelcontextprotocol/serverInfo":` + info + `}}`
	case m.Method == "initialize" && modern:
		return `"error":` + modernOnly
	case m.Method == "initialize":
		return `"result":{"protocolVersion":` + quote(m.Params.ProtocolVersion) + `,"capabilities":` + caps + `,"serverInfo":` + info + `}`
	case !modern && (m.Method == "ping" || m.Method == "logging/setLevel"):
		return `"result":{}`
	}
	return `"error":` + unknownMethod
}

// text is the result of a tool.
func text(said string, modern bool) string {
	head := ""
	if modern {
		head = complete + ","
	}
	return `"result":{` + head + `"content":[{"type":"text","text":` + quote(said) + `}]}`
}

// asks is the result with which a modern server asks a question.
func asks() string {
	return `"result":{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":` + question +
		`}},"requestState":"` + state + `"}`
}

func response(id json.RawMessage, member string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, id, member)
}

func notification(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params)
}

func progress(token json.RawMessage, n int) string {
	return notification("notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":%d}`, token, n))
}

func logged(said string) string {
	return notification("notifications/message", `{"level":"info","data":`+quote(said)+`}`)
}

func quote(s string) string {
	raw, err := json.Marshal(s)
	if err != nil {
		return `""` // a string cannot fail
	}
	return string(raw)
}
