package load

import (
	"bytes"
	"strconv"

	"dragoman/bench/reference"
)

const (
	firstNumber = 1_000_000_000 // ids have ten digits, so that requests keep their length
	// answerEnvelope is about what stands around the text of an answer.
	answerEnvelope = 110
)

// template is one connection's request, complete with its HTTP head. Only the
// number of the call changes, in two places.
type template struct {
	raw   []byte
	id    int // where the id's ten digits stand
	token int // where the token stands
	// text is what the answer must hold, from its token on.
	text []byte
}

// newTemplate writes the request: its body is size bytes long, or as short as
// possible, and asks for an answer of about the same length or of the plan's.
func newTemplate(p *Plan, s session) template {
	form := byte(reference.FormJSON)
	if p.SSE {
		form = reference.FormSSE
	}
	answer := p.Size
	if p.Answer > 0 {
		answer = p.Answer
	}
	answer = max(reference.TokenLen, answer-answerEnvelope)
	token := reference.AppendToken(nil, firstNumber, answer, form)

	head := `{"jsonrpc":"2.0","id":` + strconv.Itoa(firstNumber) +
		`,"method":"tools/call","params":{"name":"echo","arguments":{"text":"`
	tail := `"}}}`
	if p.Era == Modern {
		tail = `"},"_meta":` + modernMeta + `}}`
	}
	body := append([]byte(head), token...)
	body = reference.AppendFiller(body, max(0, p.Size-len(body)-len(tail)))
	body = append(body, tail...)

	var t template
	t.raw = appendHead(nil, p, s, "tools/call", "echo", len(body))
	at := len(t.raw)
	t.raw = append(t.raw, body...)
	t.id = at + len(`{"jsonrpc":"2.0","id":`)
	t.token = at + len(head)
	t.text = reference.AppendFiller(token, answer-len(token))
	return t
}

// number makes the template the n-th call.
func (t *template) number(n uint64) {
	reference.PutNumber(t.raw[t.id:], firstNumber+n)
	reference.PutNumber(t.raw[t.token:], firstNumber+n)
	reference.PutNumber(t.text, firstNumber+n)
}

// wantID is the id that the answer must carry, as it stands in the request.
func (t *template) wantID() []byte { return t.raw[t.id : t.id+10] }

const modernMeta = `{"io.modelcontextprotocol/protocolVersion":"` + reference.ModernVersion +
	`","io.modelcontextprotocol/clientCapabilities":{}}`

// session is what a legacy client names in the head of every request; empty before it is known.
type session struct{ id, version string }

// appendHead writes the HTTP head of a message of the plan's era.
func appendHead(dst []byte, p *Plan, s session, method, name string, length int) []byte {
	b := bytes.NewBuffer(dst)
	b.WriteString("POST " + p.Path + " HTTP/1.1\r\nHost: " + p.Addr +
		"\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n")
	switch {
	case p.Era == Modern:
		b.WriteString("MCP-Protocol-Version: " + reference.ModernVersion + "\r\nMcp-Method: " + method + "\r\n")
		if name != "" {
			b.WriteString("Mcp-Name: " + name + "\r\n")
		}
	case s.version != "":
		b.WriteString("MCP-Protocol-Version: " + s.version + "\r\n")
		if s.id != "" {
			b.WriteString("Mcp-Session-Id: " + s.id + "\r\n")
		}
	}
	b.WriteString("Content-Length: " + strconv.Itoa(length) + "\r\n\r\n")
	return b.Bytes()
}
