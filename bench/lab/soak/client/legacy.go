package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

var accept = Header{"Accept", "application/json, text/event-stream"}

// Place is the address of a server: a listener's HOST:PORT and the path below which its endpoints are.
type Place struct{ Addr, Base string }

func initialize(version string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version +
		`","capabilities":{"elicitation":{}},"clientInfo":{"name":"soak","version":"1"}}}`
}

const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// LongPause is the time without an answer after which a session may have expired. The clients pause for that long only on a machine that
// does not run them; it must be shorter than sessions.idle_ttl.
const LongPause = time.Second

// Legacy is a session over streamable HTTP. It is for one goroutine.
type Legacy struct {
	at   Place
	c    *Conn
	id   string
	n    int
	last *time.Time // of the session's last answer, on any connection
}

// OpenLegacy opens a session. If that fails, it closes the connection.
func OpenLegacy(ctx context.Context, at Place) (*Legacy, error) {
	s, err := BeginLegacy(ctx, at)
	if err != nil {
		return nil, err
	}
	if err = s.handshake(); err != nil {
		s.Leave()
		return nil, err
	}
	return s, nil
}

// BeginLegacy sends initialize and does not wait for the answer.
func BeginLegacy(ctx context.Context, at Place) (*Legacy, error) {
	c, err := Dial(ctx, at.Addr)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	s := &Legacy{at: at, c: c, n: 1, last: &now}
	if err = c.Send("POST", s.path(), s.headers(), initialize(legacyVersion)); err != nil {
		s.Leave()
		return nil, err
	}
	return s, nil
}

func (s *Legacy) handshake() error {
	m, h, err := s.c.Exchange("1", nil)
	if err = s.answered(err); err != nil {
		return err
	}
	if h.Session == "" || m.Result == nil {
		return fmt.Errorf("%w: initialize without a session", ErrWrong)
	}
	s.id = h.Session
	return s.Tell(initialized)
}

func (s *Legacy) path() string { return s.at.Base + "/mcp" }

func (s *Legacy) headers() []Header {
	if s.id == "" {
		return []Header{accept}
	}
	return []Header{accept, {"Mcp-Session-Id", s.id}, {"MCP-Protocol-Version", legacyVersion}}
}

// Tell posts a notification, or the answer to a question.
func (s *Legacy) Tell(message string) error {
	if err := s.c.Send("POST", s.path(), s.headers(), message); err != nil {
		return err
	}
	return s.answered(accepted(s.c))
}

// answered records that an answer has come, and explains its error.
func (s *Legacy) answered(err error) error {
	paused := time.Since(*s.last)
	*s.last = time.Now()
	var rpc *RPCError
	if paused > LongPause && errors.As(err, &rpc) && strings.HasPrefix(rpc.Message, "no such session") {
		return fmt.Errorf("%w for %v", ErrExpired, paused)
	}
	return err
}

// accepted reads a response without content.
func accepted(c *Conn) error {
	h, err := c.Head()
	if err != nil {
		return err
	}
	if h.Status/100 != 2 {
		return refusal(c, h)
	}
	_, err = All(c.Body(h))
	return err
}

// refusal reads the error of a response whose status is one.
func refusal(c *Conn, h Head) error {
	raw, err := All(c.Body(h))
	if err != nil {
		return err
	}
	var m Message
	if json.Unmarshal(raw, &m) == nil && m.Error != nil {
		return m.Error
	}
	return &StatusError{Status: h.Status, Body: string(raw)}
}

// Begin sends a call and returns its id.
func (s *Legacy) Begin(call Call) (string, error) {
	id, body, err := s.number(&call)
	if err != nil {
		return "", err
	}
	return id, s.c.Send("POST", s.path(), s.headers(), body)
}

// BeginHalf sends the first half of a call.
func (s *Legacy) BeginHalf(call Call) error {
	_, body, err := s.number(&call)
	if err != nil {
		return err
	}
	return s.c.SendHalf("POST", s.path(), s.headers(), body)
}

func (s *Legacy) number(call *Call) (id, body string, err error) {
	s.n++
	id = strconv.Itoa(s.n)
	body, err = call.body(id, "")
	return id, body, err
}

// End waits for the answer to a call of Begin, and checks it.
func (s *Legacy) End(id string, call Call, each func(*Message) error) error {
	m, _, err := s.c.Exchange(id, each)
	if err = s.answered(err); err != nil {
		return err
	}
	return call.check(m)
}

// Call makes a call and checks its answer.
func (s *Legacy) Call(call Call) error {
	id, err := s.Begin(call)
	if err != nil {
		return err
	}
	return s.End(id, call, nil)
}

// Beside opens another connection of the session, for concurrent requests.
func (s *Legacy) Beside(ctx context.Context) (*Legacy, error) {
	c, err := Dial(ctx, s.at.Addr)
	if err != nil {
		return nil, err
	}
	return &Legacy{at: s.at, c: c, id: s.id, n: s.n + 1000, last: s.last}, nil
}

// From moves the ids of calls on this connection by n: the ids of a session must differ.
func (s *Legacy) From(n int) { s.n += n }

// Cancel sends the cancellation of a call.
func (s *Legacy) Cancel(id string) error {
	return s.Tell(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
}

// Stream opens the session's GET stream on this connection, which can be used for nothing else from then on.
func (s *Legacy) Stream() (*Events, error) {
	if err := s.c.Send("GET", s.path(), s.headers(), ""); err != nil {
		return nil, err
	}
	h, err := s.c.Head()
	if err != nil {
		return nil, err
	}
	var refused error
	if h.Status != 200 {
		refused = refusal(s.c, h)
	}
	if err = s.answered(refused); err != nil {
		return nil, err
	}
	return NewEvents(s.c.Body(h)), nil
}

// Delete deletes the session. That it has expired is no error: the client may have been slow.
func (s *Legacy) Delete() error {
	if err := s.c.Send("DELETE", s.path(), s.headers(), ""); err != nil {
		return err
	}
	h, err := s.c.Head()
	if err != nil {
		return err
	}
	raw, err := All(s.c.Body(h))
	if err == nil && h.Status/100 != 2 && h.Status != 404 {
		err = &StatusError{Status: h.Status, Body: string(raw)}
	}
	return err
}

// Leave closes the connection without deleting the session.
func (s *Legacy) Leave() { _ = s.c.Close() }

// Conn is the connection.
func (s *Legacy) Conn() *Conn { return s.c }

// SSE is a session over HTTP+SSE. It is for one goroutine.
type SSE struct {
	at     Place
	stream *Conn
	post   *Conn
	events *Events
	path   string
	n      int
}

// OpenSSE opens a session. If that fails, it closes its connections.
func OpenSSE(ctx context.Context, at Place) (*SSE, error) {
	c, err := Dial(ctx, at.Addr)
	if err != nil {
		return nil, err
	}
	s := &SSE{at: at, stream: c, n: 1}
	if err = s.open(ctx); err != nil {
		s.Leave()
		return nil, err
	}
	return s, nil
}

func (s *SSE) open(ctx context.Context) error {
	if err := s.stream.Send("GET", s.at.Base+"/sse", []Header{{"Accept", "text/event-stream"}}, ""); err != nil {
		return err
	}
	h, err := s.stream.Head()
	if err != nil {
		return err
	}
	body := s.stream.Body(h)
	if h.Status != 200 {
		raw, _ := All(body) // for the error
		return &StatusError{Status: h.Status, Body: string(raw)}
	}
	s.events = NewEvents(body)
	ev, err := s.events.Next()
	if err != nil {
		return fmt.Errorf("client: no endpoint event: %w", unexpected(err))
	}
	if ev.Name != "endpoint" {
		return fmt.Errorf("%w: the first event is %q", ErrWrong, ev.Name)
	}
	s.path = strings.TrimPrefix(ev.Data, "http://"+s.at.Addr)
	if s.post, err = Dial(ctx, s.at.Addr); err != nil {
		return err
	}
	if err = s.Tell(initialize(sseVersion)); err != nil {
		return err
	}
	if _, err = s.await("1"); err != nil {
		return err
	}
	return s.Tell(initialized)
}

// Tell posts a message.
func (s *SSE) Tell(message string) error {
	if err := s.post.Send("POST", s.path, []Header{accept}, message); err != nil {
		return err
	}
	return accepted(s.post)
}

// await reads the stream up to the response with this id.
func (s *SSE) await(id string) (*Message, error) {
	for {
		ev, err := s.events.Next()
		if err != nil {
			return nil, fmt.Errorf("client: the stream ended before the response: %w", unexpected(err))
		}
		m := &Message{}
		if err = json.Unmarshal([]byte(ev.Data), m); err != nil {
			return nil, fmt.Errorf("%w: an event that is not a message: %.80q", ErrWrong, ev.Data)
		}
		if m.Method == "" {
			return m, m.answers(id)
		}
	}
}

// Begin posts a call and returns its id.
func (s *SSE) Begin(call Call) (string, error) {
	s.n++
	id := strconv.Itoa(s.n)
	body, err := call.body(id, "")
	if err != nil {
		return "", err
	}
	return id, s.Tell(body)
}

// Call makes a call and checks its answer.
func (s *SSE) Call(call Call) error {
	id, err := s.Begin(call)
	if err != nil {
		return err
	}
	m, err := s.await(id)
	if err != nil {
		return err
	}
	return call.check(m)
}

// Unread makes the session that of a client that does not read.
func (s *SSE) Unread() { s.stream.Unread() }

// Leave closes the connections, which ends such a session.
func (s *SSE) Leave() {
	_ = s.stream.Close()
	if s.post != nil {
		_ = s.post.Close()
	}
}
