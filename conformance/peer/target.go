package peer

import (
	"context"
	"errors"
	"fmt"
	"github.com/goccy/go-json"
	"time"
)

// Target is a server under test. Exactly one of HTTP and Program is set.
type Target struct {
	HTTP    *HTTP
	Program Spawner
	Timeout time.Duration // for an answer; 0: 10 s
}

// Patience returns the timeout for an answer.
func (t *Target) Patience() time.Duration {
	if t.Timeout <= 0 {
		return 10 * time.Second
	}
	return t.Timeout
}

// Settings configures a Conn.
type Settings struct {
	Face         Face
	Revision     string
	Capabilities string // of the client, a JSON object; empty: none
	Client       Object // clientInfo; nil: that of the tester
	Watch        Watcher
	// Received is called with each received message, and for a response with the method that it answers. It may be nil.
	Received func(m Message, answers string)
	// Answer returns the answer to a request of the server: a result or an error as JSON with its member name, such as `"result":{}`; ""
	// for none. If it is nil, pings are answered and other requests refused with -32601. It may be called concurrently.
	Answer func(m Message) string
	// NoListening suppresses the GET stream of a legacy HTTP session.
	NoListening bool
	// NoHandshake suppresses initialize and notifications/initialized.
	NoHandshake bool
	// LogLevel is in _meta of each request to a modern server; empty: none.
	LogLevel string
}

// ErrRefused is an error response to a request that needed a result.
type ErrRefused struct {
	Method string
	Answer Message
}

func (e *ErrRefused) Error() string {
	code, message, _ := e.Answer.Error()
	if _, ok := Get(e.Answer.Object, "error", "code").(json.Number); !ok { // such as the body of a 401 (RFC 6749 §5.2)
		status := ""
		if e.Answer.Status != 0 {
			status = fmt.Sprintf("HTTP %d and ", e.Answer.Status)
		}
		return fmt.Sprintf("%s was answered with %s%s, which is no error of JSON-RPC", e.Method, status, Cut(e.Answer.Raw, 200))
	}
	return fmt.Sprintf("%s was answered with the error %d: %s", e.Method, code, message)
}

var errNoFace = errors.New("peer: this target has no such face")

// Open starts the program or the session and does the handshake. The end of ctx ends the Conn.
func (t *Target) Open(ctx context.Context, s Settings) (*Conn, error) {
	if s.Capabilities == "" {
		s.Capabilities = "{}"
	}
	if s.Client == nil {
		s.Client = Object{"name": "dragoman-conformance", "version": "1"}
	}
	if (t.Program != nil) != s.Face.Stdio() || s.Face == REST {
		return nil, errNoFace
	}
	c := newConn(ctx, t, s)
	err := c.begin()
	if err == nil && !s.Face.Modern() && !s.NoHandshake {
		err = c.handshake()
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}
