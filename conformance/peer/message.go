package peer

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-json"
)

// Object is a decoded JSON object with numbers as json.Number.
type Object = map[string]any

// Message is a received message.
type Message struct {
	Raw    string
	Object Object          // nil: not a JSON object
	ID     json.RawMessage // JSON; nil: none
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

// ReadMessage decodes a message. If raw is not a message, it returns one with Raw alone, and an error.
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

// Decode decodes JSON into Object, []any, string, json.Number, bool and nil.
func Decode(raw string) (any, error) {
	d := json.NewDecoder(strings.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("peer: not JSON: %w", err)
	}
	return v, nil
}

// Encode returns a value as JSON without HTML escapes. It is for values that can be encoded; for others it returns null.
func Encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "null"
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Cut returns a text of at most n bytes, and "…" if there was more.
func Cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
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

// Result returns the result of a response; nil if it has none that is an object.
func (m Message) Result() Object { o, _ := m.Object["result"].(Object); return o }

// Params returns the params of a request or a notification; nil if it has none that are an object.
func (m Message) Params() Object { o, _ := m.Object["params"].(Object); return o }

// Error returns the error of a response; the code is 0 if there is none.
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

// Get returns the value at a path of member names and decimal indices of arrays; nil if there is none.
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

// Text is Get for a string; "" if there is none.
func Text(v any, path ...string) string { s, _ := Get(v, path...).(string); return s }

// List is Get for an array; nil if there is none.
func List(v any, path ...string) []any { s, _ := Get(v, path...).([]any); return s }
