package drive

import (
	"bytes"
	"strconv"
	"strings"

	"dragoman/bench/reference"
)

const (
	firstNumber = 1_000_000_000 // numbers have ten digits, so that requests keep their length
	lastNumber  = 9_999_999_999 // is initializeID
	numberLen   = 10
	// uuid is the id of a REST call. Its last ten digits are the number.
	uuid = "00000000-0000-4000-8000-00"
)

// request is a message with its HTTP head, if it has one. Only the number of the call changes.
type request struct {
	raw   []byte
	holes []int // offsets of the ten digits
}

// number sets the number of the call.
func (r *request) number(digits []byte) {
	for _, at := range r.holes {
		copy(r.raw[at:], digits)
	}
}

// newRequest joins a head and a body in which Number stands for the number.
func newRequest(head, body string) request {
	var r request
	raw := make([]byte, 0, len(head)+len(body)+64)
	raw = append(raw, head...)
	for {
		before, after, ok := strings.Cut(body, Number)
		raw = append(raw, before...)
		if !ok {
			break
		}
		r.holes = append(r.holes, len(raw))
		raw = append(raw, "0000000000"...)
		body = after
	}
	r.raw = raw
	return r
}

// length returns the length of a body with its numbers filled in.
func length(body string) int { return len(body) + strings.Count(body, Number)*(numberLen-len(Number)) }

// body is the message of a call, with Number for its number.
func body(face Face, revision string, c *Call) string {
	if face == Plain {
		return c.Params
	}
	if face == REST {
		if c.Method != "tools/call" {
			return ""
		}
		return `{"request_id":"` + uuid + Number + `",` + strings.Replace(strings.TrimPrefix(strings.TrimSpace(c.Params), "{"), `"name"`, `"tool"`, 1)
	}
	params := strings.TrimSpace(c.Params)
	if face.modern() {
		params = withMeta(params, revision)
	}
	if params != "" {
		params = `,"params":` + params
	}
	return `{"jsonrpc":"2.0","id":` + Number + `,"method":"` + c.Method + `"` + params + `}`
}

// withMeta adds _meta of a modern request to the end of params, which have none.
func withMeta(params, revision string) string {
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + revision + `","io.modelcontextprotocol/clientCapabilities":{}}}`
	inner := strings.TrimSpace(strings.TrimSuffix(params, "}"))
	switch inner {
	case "", "{":
		return "{" + meta
	}
	return inner + "," + meta
}

// session has the header values of a legacy client's requests; empty before initialize.
type session struct{ id, version string }

// head is the HTTP head of a message.
func (p *Plan) head(s session, path, method, name string, length int) string {
	var b bytes.Buffer
	b.WriteString("POST " + path + " HTTP/1.1\r\nHost: " + p.Host + "\r\nContent-Type: application/json\r\nAccept: application/json")
	if p.Face.speaksMCP() { // other faces do not accept event streams
		b.WriteString(", text/event-stream")
	}
	b.WriteString("\r\n" + p.Header)
	switch {
	case p.Face.modern():
		b.WriteString("MCP-Protocol-Version: " + p.Revision + "\r\nMcp-Method: " + method + "\r\n")
		if name != "" {
			b.WriteString("Mcp-Name: " + name + "\r\n")
		}
	case p.Face == LegacyHTTP && s.version != "":
		b.WriteString("MCP-Protocol-Version: " + s.version + "\r\n")
		if s.id != "" {
			b.WriteString("Mcp-Session-Id: " + s.id + "\r\n")
		}
	}
	b.WriteString("Content-Length: " + strconv.Itoa(length) + "\r\n\r\n")
	return b.String()
}

// requests returns the requests of all calls, for one connection.
func (p *Plan) requests(s session, path string) []request {
	out := make([]request, len(p.Calls))
	for i := range p.Calls {
		c := &p.Calls[i]
		text := body(p.Face, p.Revision, c)
		switch {
		case p.Face.Stdio():
			out[i] = newRequest("", text)
		case p.Face == REST && text == "":
			out[i] = newRequest("GET "+below(path, "/tools")+" HTTP/1.1\r\nHost: "+p.Host+"\r\nAccept: application/json\r\n"+p.Header+"\r\n", "")
		case p.Face == REST:
			out[i] = newRequest(p.head(s, below(path, "/call-tool"), "", "", length(text)), text)
		default:
			out[i] = newRequest(p.head(s, path, c.Method, c.Header, length(text)), text)
		}
	}
	return out
}

// below appends a name to the target's path and keeps its query.
func below(path, name string) string {
	base, query, has := strings.Cut(path, "?")
	base = strings.TrimSuffix(base, "/") + name
	if has {
		base += "?" + query
	}
	return base
}

// digits appends a call's number as ten digits.
func digits(dst []byte, n uint64) []byte {
	if cap(dst) < numberLen {
		dst = make([]byte, numberLen)
	}
	dst = dst[:numberLen]
	reference.PutNumber(dst, firstNumber+n%(lastNumber-firstNumber))
	return dst
}
