package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// The revisions that the clients speak.
const (
	modernVersion = "2026-07-28"
	legacyVersion = "2025-11-25"
	sseVersion    = "2024-11-05"
)

// Message is what comes from Dragoman.
type Message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result *struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
		ResultType    string                     `json:"resultType"`
		InputRequests map[string]json.RawMessage `json:"inputRequests"`
		RequestState  string                     `json:"requestState"`
	} `json:"result"`
	Error *RPCError `json:"error"`

	raw string
}

// RPCError is the error of a response.
type RPCError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    struct {
		Code string `json:"code"`
	} `json:"data"`
}

// Error names the failure.
func (e *RPCError) Error() string { return fmt.Sprintf("%s: %s", e.Name(), e.Message) }

// Name is Dragoman's name for the failure, or else the code of JSON-RPC.
func (e *RPCError) Name() string {
	if e.Data.Code != "" {
		return e.Data.Code
	}
	return strconv.Itoa(e.Code)
}

// StatusError is a response that is no JSON-RPC.
type StatusError struct {
	Status int
	Body   string
}

// Error names the status.
func (e *StatusError) Error() string {
	return fmt.Sprintf("client: HTTP status %d: %.200s", e.Status, e.Body)
}

// ErrWrong is an answer that is not the one to the question that was asked.
var ErrWrong = errors.New("client: a wrong answer")

// text is the answer's text, or why there is none.
func (m *Message) text() (string, error) {
	switch {
	case m.Error != nil:
		return "", m.Error
	case m.Result == nil || len(m.Result.Content) != 1 || m.Result.Content[0].Type != "text":
		return "", fmt.Errorf("%w: no text in it", ErrWrong)
	}
	return m.Result.Content[0].Text, nil
}

// Exchange reads the response to the request with the id, whether it comes as JSON or as events. each, if not nil, is given
// what comes before it, and its error ends the reading. The head is given too, also with an error.
func (c *Conn) Exchange(id string, each func(*Message) error) (*Message, Head, error) {
	h, err := c.Head()
	if err != nil {
		return nil, h, err
	}
	if h.Type == "text/event-stream" && h.Status == 200 {
		m, err := await(c.Body(h), id, each)
		return m, h, err
	}
	raw, err := All(c.Body(h))
	if err != nil {
		return nil, h, err
	}
	m := Message{raw: string(raw)}
	if json.Unmarshal(raw, &m) != nil || m.Error == nil && h.Status != 200 {
		return nil, h, &StatusError{Status: h.Status, Body: string(raw)}
	}
	if m.Error != nil && m.ID == nil { // the request was refused before it was read
		return &m, h, m.Error
	}
	return &m, h, m.answers(id)
}

// answers says what is wrong with m as the response to the request with the id.
func (m *Message) answers(id string) error {
	if string(m.ID) != id {
		return fmt.Errorf("%w: id %s instead of %s", ErrWrong, m.ID, id)
	}
	if m.Error != nil {
		return m.Error
	}
	return nil
}

// await reads events to the response to the request with the id, and the stream to its end.
func await(body io.Reader, id string, each func(*Message) error) (*Message, error) {
	events := NewEvents(body)
	for {
		ev, err := events.Next()
		if err != nil {
			return nil, fmt.Errorf("client: the stream ended before the response: %w", unexpected(err))
		}
		m := &Message{raw: ev.Data}
		if err = json.Unmarshal([]byte(ev.Data), m); err != nil {
			return nil, fmt.Errorf("%w: an event that is no message: %.80q", ErrWrong, ev.Data)
		}
		if m.Method == "" {
			if err = m.answers(id); err == nil || m.Error != nil {
				_, _ = io.Copy(io.Discard, body) // the connection is closed where that fails
			}
			return m, err
		}
		if each == nil {
			continue
		}
		if err = each(m); err != nil {
			return nil, err
		}
	}
}

// Call is a call of a tool.
type Call struct {
	Tool      string // "" is echo
	Arguments any
	Want      string // the text of the answer; "" is not checked
	Progress  bool   // ask for progress
	Extra     string // further members of params, with a comma in front
}

func (c *Call) tool() string {
	if c.Tool == "" {
		return "echo"
	}
	return c.Tool
}

// body is the request; meta is the members of _meta, without a comma in front.
func (c *Call) body(id, meta string) (string, error) {
	args, err := json.Marshal(c.Arguments)
	if err != nil {
		return "", fmt.Errorf("client: %w", err)
	}
	if c.Progress {
		if meta != "" {
			meta += ","
		}
		meta += `"progressToken":"p` + id + `"`
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{%s}%s}}`,
		id, c.tool(), args, meta, c.Extra), nil
}

// check compares the answer with what is wanted.
func (c *Call) check(m *Message) error {
	text, err := m.text()
	if err != nil {
		return err
	}
	if c.Want != "" && text != c.Want {
		return fmt.Errorf("%w: %d bytes %.60q instead of %d bytes %.60q", ErrWrong, len(text), text, len(c.Want), c.Want)
	}
	return nil
}
