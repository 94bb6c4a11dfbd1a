package client

import (
	"context"
	"fmt"
	"strconv"
)

const modernMeta = `"io.modelcontextprotocol/protocolVersion":"` + modernVersion + `","io.modelcontextprotocol/clientCapabilities":`

// Modern is a client of revision 2026-07-28, on one connection. It is for one goroutine.
type Modern struct {
	at   Place
	c    *Conn
	n    int
	caps string
}

// OpenModern connects. With asks it declares that the server may ask questions.
func OpenModern(ctx context.Context, at Place, asks bool) (*Modern, error) {
	c, err := Dial(ctx, at.Addr)
	if err != nil {
		return nil, err
	}
	m := &Modern{at: at, c: c, caps: "{}"}
	if asks {
		m.caps = `{"elicitation":{"form":{}}}`
	}
	return m, nil
}

// Begin sends a call and returns its id.
func (m *Modern) Begin(call Call) (string, error) {
	id, body, err := m.number(&call)
	if err != nil {
		return "", err
	}
	return id, m.c.Send("POST", m.at.Base+"/mcp", headers("tools/call", call.tool()), body)
}

// BeginHalf sends the first half of a call.
func (m *Modern) BeginHalf(call Call) error {
	_, body, err := m.number(&call)
	if err != nil {
		return err
	}
	return m.c.SendHalf("POST", m.at.Base+"/mcp", headers("tools/call", call.tool()), body)
}

func (m *Modern) number(call *Call) (id, body string, err error) {
	m.n++
	id = strconv.Itoa(m.n)
	body, err = call.body(id, modernMeta+m.caps)
	return id, body, err
}

func headers(method, name string) []Header {
	h := []Header{accept, {"MCP-Protocol-Version", modernVersion}, {"Mcp-Method", method}}
	if name != "" {
		h = append(h, Header{"Mcp-Name", name})
	}
	return h
}

// Call makes a call and checks its answer.
func (m *Modern) Call(call Call) error {
	id, err := m.Begin(call)
	if err != nil {
		return err
	}
	reply, _, err := m.c.Exchange(id, nil)
	if err != nil {
		return err
	}
	return call.check(reply)
}

// Ask makes a call in which the server asks, and returns its question.
func (m *Modern) Ask(call Call) (*Message, error) {
	id, err := m.Begin(call)
	if err != nil {
		return nil, err
	}
	reply, _, err := m.c.Exchange(id, nil)
	if err != nil {
		return nil, err
	}
	if r := reply.Result; r == nil || r.ResultType != "input_required" || len(r.InputRequests) != 1 || r.RequestState == "" {
		return nil, fmt.Errorf("%w: %.300s instead of a question", ErrWrong, reply.raw)
	}
	return reply, nil
}

// Answer makes the call again with an answer to the question, and checks the result.
func (m *Modern) Answer(call Call, asked *Message) error {
	for key := range asked.Result.InputRequests {
		call.Extra = fmt.Sprintf(`,"inputResponses":{%q:{"action":"accept","content":{"text":"yes"}}},"requestState":%q`,
			key, asked.Result.RequestState)
	}
	return m.Call(call)
}

// Listen opens a listen for changes and reads its acknowledgement. The connection can be used for nothing else from then on.
func (m *Modern) Listen() error {
	m.n++
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{%s%s}}}`,
		m.n, modernMeta, m.caps)
	if err := m.c.Send("POST", m.at.Base+"/mcp", headers("subscriptions/listen", ""), body); err != nil {
		return err
	}
	h, err := m.c.Head()
	if err != nil {
		return err
	}
	if h.Type != "text/event-stream" {
		raw, _ := All(m.c.Body(h)) // for the error
		return &StatusError{Status: h.Status, Body: string(raw)}
	}
	_, err = NewEvents(m.c.Body(h)).Next()
	return err
}

// Unread makes the client one that does not read.
func (m *Modern) Unread() { m.c.Unread() }

// Leave closes the connection.
func (m *Modern) Leave() { _ = m.c.Close() }
