package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// The revisions of the clients.
const (
	modernVersion = "2026-07-28"
	legacyVersion = "2025-11-25"
	sseVersion    = "2024-11-05"
)

// Message is a message from Dragoman.
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

// Name is Dragoman's name for the failure, or the JSON-RPC code if it has none.
func (e *RPCError) Name() string {
	if e.Data.Code != "" {
		return e.Data.Code
	}
	return strconv.Itoa(e.Code)
}

// StatusError is a response that is not JSON-RPC.
type StatusError struct {
	Status int
	Body   string
}

// Error names the status.
func (e *StatusError) Error() string {
	return fmt.Sprintf("client: HTTP status %d: %.200s", e.Status, e.Body)
}

// ErrWrong is the error of a wrong answer.
var ErrWrong = errors.New("client: a wrong answer")

// ErrExpired is the error of a request in a session that has expired because its client paused for more than [LongPause].
var ErrExpired = errors.New("client: the session has expired while its client paused")

// text returns the answer's text, or the error.
func (m *Message) text() (string, error) {
	switch {
	case m.Error != nil:
		return "", m.Error
	case m.Result == nil || len(m.Result.Content) != 1 || m.Result.Content[0].Type != "text":
		return "", fmt.Errorf("%w: no text in it", ErrWrong)
	}
	return m.Result.Content[0].Text, nil
}

// Exchange reads the response to the request with this id, as JSON or as events. each, if not nil, is called with the messages before it,
// and its error ends the reading. The head is returned also with an error.
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
	if m.Error != nil && m.ID == nil { // the request was refused before it was parsed
		return &m, h, m.Error
	}
	return &m, h, m.answers(id)
}

// answers returns an error unless m is the response to the request with this id.
func (m *Message) answers(id string) error {
	if string(m.ID) != id {
		return fmt.Errorf("%w: id %s instead of %s", ErrWrong, m.ID, id)
	}
	if m.Error != nil {
		return m.Error
	}
	return nil
}

// await reads events up to the response to the request with this id, and then the stream to its end.
func await(body io.Reader, id string, each func(*Message) error) (*Message, error) {
	events := NewEvents(body)
	for {
		ev, err := events.Next()
		if err != nil {
			return nil, fmt.Errorf("client: the stream ended before the response: %w", unexpected(err))
		}
		m := &Message{raw: ev.Data}
		if err = json.Unmarshal([]byte(ev.Data), m); err != nil {
			return nil, fmt.Errorf("%w: an event that is not a message: %.80q", ErrWrong, ev.Data)
		}
		if m.Method == "" {
			if err = m.answers(id); err == nil || m.Error != nil {
				_, _ = io.Copy(io.Discard, body) // if that fails, the connection is closed
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
	Tool      string // empty: echo
	Arguments any
	Want      string // the text of the answer; empty: not checked
	Progress  bool   // ask for progress
	Extra     string // further members of params, with a leading comma
}

func (c *Call) tool() string {
	if c.Tool == "" {
		return "echo"
	}
	return c.Tool
}

// body is the request. meta has the members of _meta, without a leading comma.
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

// check compares the answer with Want.
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
