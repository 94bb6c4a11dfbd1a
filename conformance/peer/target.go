package peer

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Target is a server under test: an endpoint, or a program. Exactly one of them is set.
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

// Settings are those of a conversation.
type Settings struct {
	Face         Face
	Revision     string
	Capabilities string // of the client, a JSON object; empty: none
	Client       Object // clientInfo; nil: the tester's
	Watch        Watcher
	// Received is shown each message that comes in a conversation, and for a response the method that it answers; nil: nobody is.
	Received func(m Message, answers string)
	// Answer answers what the server asks: a result or an error, as JSON with its member name, such as `"result":{}`; "" leaves it
	// without an answer. nil: pings are answered, all else is refused with -32601. It may be called from several goroutines.
	Answer func(m Message) string
	// NoListening leaves out the GET stream of a legacy HTTP session.
	NoListening bool
	// NoHandshake leaves out initialize and initialized.
	NoHandshake bool
	// LogLevel is put into _meta of each request to a modern server; empty: none.
	LogLevel string
}

// ErrRefused is an error response where a result was needed to go on.
type ErrRefused struct {
	Method string
	Answer Message
}

func (e *ErrRefused) Error() string {
	code, message, _ := e.Answer.Error()
	return fmt.Sprintf("%s was answered with the error %d: %s", e.Method, code, message)
}

var errNoFace = errors.New("peer: this target has no such face")

// Open begins a conversation: starts the program or the session, and shakes hands. ctx holds for all of it.
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
