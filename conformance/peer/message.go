package peer

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-json"
)

// Object is a JSON object, decoded with its numbers as they are written.
type Object = map[string]any

// Message is a received message.
type Message struct {
	Raw    string
	Object Object          // nil: it is no JSON object
	ID     json.RawMessage // as it is written; nil: it has none
	Method string
	Where  string // over which stream: "the response", "the GET stream", "the SSE stream", "stdout"
	Event  Event  // of an event stream
	Status int    // of an HTTP response; 0 elsewhere
}

// Kind tells requests from notifications and responses.
type Kind int

// The kinds of messages.
const (
	Neither Kind = iota // not a message of JSON-RPC 2.0
	IsRequest
	IsNotification
	IsResponse
)

// ReadMessage decodes a message. What is none is given too, with the error that says why.
func ReadMessage(raw string) (Message, error) {
	m := Message{Raw: raw}
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(raw), &members); err != nil {
		return m, fmt.Errorf("peer: not a JSON object: %w", err)
	}
	if members == nil {
		return m, errors.New("peer: null is no message")
	}
	object, err := Decode(raw)
	if err != nil {
		return m, err
	}
	m.Object, _ = object.(Object)
	m.ID = members["id"]
	m.Method, _ = m.Object["method"].(string)
	return m, nil
}

// Decode gives a JSON text as trees of Object, []any, string, json.Number, bool and nil.
func Decode(raw string) (any, error) {
	d := json.NewDecoder(strings.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("peer: not JSON: %w", err)
	}
	return v, nil
}

// Encode writes a value as JSON, without escapes that it does not need. It is for values that the tester makes itself.
func Encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "null"
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Kind returns the kind of the message by its members.
func (m Message) Kind() Kind {
	if m.Object == nil {
		return Neither
	}
	_, result := m.Object["result"]
	_, failed := m.Object["error"]
	switch {
	case m.Method != "" && m.ID != nil:
		return IsRequest
	case m.Method != "":
		return IsNotification
	case result || failed:
		return IsResponse
	}
	return Neither
}

// Result is the result of a response; nil: it has none, or it is no object.
func (m Message) Result() Object { o, _ := m.Object["result"].(Object); return o }

// Params are those of a request or a notification; nil: there are none, or they are no object.
func (m Message) Params() Object { o, _ := m.Object["params"].(Object); return o }

// Error is the error of a response: code 0 and an empty message where there is none.
func (m Message) Error() (code int, message string, data any) {
	e, _ := m.Object["error"].(Object)
	if n, ok := e["code"].(json.Number); ok {
		i, _ := n.Int64()
		code = int(i)
	}
	message, _ = e["message"].(string)
	return code, message, e["data"]
}

// Failed reports whether the message is an error response.
func (m Message) Failed() bool { _, ok := m.Object["error"]; return ok }

// Get walks into a value by member names and, as text, positions in arrays; nil: there is no such place.
func Get(v any, path ...string) any {
	for _, name := range path {
		switch x := v.(type) {
		case Object:
			v = x[name]
		case []any:
			i := -1
			if _, err := fmt.Sscan(name, &i); err != nil || i < 0 || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

// Text is Get for a string; empty: there is none.
func Text(v any, path ...string) string { s, _ := Get(v, path...).(string); return s }

// List is Get for an array; nil: there is none.
func List(v any, path ...string) []any { s, _ := Get(v, path...).([]any); return s }
