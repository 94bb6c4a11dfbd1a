package peer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-json"
)

// Conn is a connection of a client in the sense of the protocol: a legacy session, a program, or requests to an endpoint. Its methods may be
// called from any goroutine. Close ends it.
type Conn struct {
	Settings
	target *Target
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup // readers

	child   *Child // of a stdio face
	post    string // endpoint of HTTP+SSE
	Session string // id of a legacy HTTP session; empty: none
	Server  Object // the result of initialize
	Agreed  string // the revision in the result of initialize; that of Settings for a modern server

	mu     sync.Mutex
	last   int
	calls  map[string]*Call // unanswered, by id
	other  []Message        // messages that belong to no call
	more   chan struct{}    // closed when other grows
	ended  error            // why the shared stream has ended; nil: it has not
	listen bool             // a GET stream is open
}

// maxOther limits the kept messages that belong to no call.
const maxOther = 4096

func newConn(ctx context.Context, t *Target, s Settings) *Conn {
	c := &Conn{Settings: s, target: t, calls: make(map[string]*Call), more: make(chan struct{}), Agreed: s.Revision}
	c.ctx, c.cancel = context.WithCancel(ctx)
	return c
}

// Call is a request.
type Call struct {
	ID     string // JSON
	Method string
	Sent   string // the message
	conn   *Conn
	stop   context.CancelFunc

	mu     sync.Mutex
	got    []Message // its messages in order, those on its own stream included
	answer int       // index in got of the response; -1: none yet
	err    error     // why there is no response
	more   chan struct{}
	Status int // of HTTP; 0 elsewhere and before the response
	ended  chan struct{}
}

// Start sends a request. params is a JSON object, or empty for none. Start adds the _meta of a modern request unless params has it.
func (c *Conn) Start(method, params string, more ...Field) (*Call, error) {
	c.mu.Lock()
	c.last++
	id := strconv.Itoa(c.last)
	c.mu.Unlock()
	return c.StartAs(id, method, params, more...)
}

// StartAs is Start with an id, which is JSON. more sets or drops fields of an HTTP request's head.
func (c *Conn) StartAs(id, method, params string, more ...Field) (*Call, error) {
	params = c.meta(params)
	text := `{"jsonrpc":"2.0","id":` + id + `,"method":` + Encode(method)
	if params != "" {
		text += `,"params":` + params
	}
	text += "}"
	call := &Call{ID: id, Method: method, Sent: text, conn: c, answer: -1, more: make(chan struct{}), ended: make(chan struct{})}
	c.mu.Lock()
	c.calls[idKey(id)] = call
	c.mu.Unlock()
	if err := c.send(call, method, params, text, more); err != nil {
		call.fail(err)
		return call, err
	}
	return call, nil
}

// meta adds the _meta that 2026-07-28 requires of each request.
func (c *Conn) meta(params string) string {
	if !c.Face.Modern() {
		return params
	}
	v, err := Decode(params)
	if params == "" {
		v, err = Object{}, nil
	}
	object, ok := v.(Object)
	if err != nil || !ok {
		return params // malformed on purpose
	}
	if _, there := object["_meta"]; there && Get(object, "_meta", MetaVersion) != nil {
		return params
	}
	meta, _ := object["_meta"].(Object)
	if meta == nil {
		meta = Object{}
	}
	meta[MetaVersion], meta[MetaClient] = c.Revision, c.Client
	meta[MetaCapabilities] = json.RawMessage(c.Capabilities)
	if c.LogLevel != "" {
		meta[MetaLogLevel] = c.LogLevel
	}
	object["_meta"] = meta
	return Encode(object)
}

// Request is Start and Wait.
func (c *Conn) Request(method, params string) (Message, error) {
	call, err := c.Start(method, params)
	if err != nil {
		return Message{}, err
	}
	return call.Wait()
}

// Result is Request, but returns the result. An error response is an ErrRefused.
func (c *Conn) Result(method, params string) (Object, error) {
	m, err := c.Request(method, params)
	if err != nil {
		return nil, err
	}
	if m.Failed() {
		return nil, &ErrRefused{method, m}
	}
	if m.Result() == nil {
		return nil, fmt.Errorf("the result of %s is no object: %s", method, m.Raw)
	}
	return m.Result(), nil
}

// Notify sends a notification. The status is that of HTTP, 0 elsewhere.
func (c *Conn) Notify(method, params string) (status int, err error) {
	text := `{"jsonrpc":"2.0","method":` + Encode(method)
	if params != "" {
		text += `,"params":` + params
	}
	return c.Say(text + "}")
}

// Others returns the messages so far that belong to no call.
func (c *Conn) Others() []Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Message(nil), c.other...)
}

// WaitOther waits for a message that belongs to no call.
func (c *Conn) WaitOther(wanted func(Message) bool) (Message, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.target.Patience())
	defer cancel()
	seen := 0
	for {
		c.mu.Lock()
		for ; seen < len(c.other); seen++ {
			if m := c.other[seen]; wanted(m) {
				c.mu.Unlock()
				return m, nil
			}
		}
		more, ended := c.more, c.ended
		c.mu.Unlock()
		if ended != nil {
			return Message{}, ended
		}
		select {
		case <-more:
		case <-ctx.Done():
			return Message{}, fmt.Errorf("nothing of the kind came within %s", c.target.Patience())
		}
	}
}

// take dispatches a received message. on is the call whose own stream it came on; nil: the shared stream.
func (c *Conn) take(on *Call, m Message) {
	if m.Kind() == IsRequest {
		c.work.Go(func() { c.respond(m) })
	}
	c.mu.Lock()
	call := on
	if call == nil && m.Kind() == IsResponse {
		call = c.calls[idKey(string(m.ID))]
	}
	if call == nil {
		call = c.owner(m)
	}
	if call == nil {
		if len(c.other) < maxOther {
			c.other = append(c.other, m)
		}
		close(c.more)
		c.more = make(chan struct{})
	}
	c.mu.Unlock()
	if c.Received != nil {
		answers := ""
		if call != nil && m.Kind() == IsResponse {
			answers = call.Method
		}
		c.Received(m, answers)
	}
	if call != nil {
		call.take(m)
	}
}

// owner returns the call of a notification on a shared stream, by its progress token, which is the id as text.
func (c *Conn) owner(m Message) *Call {
	if m.Method != "notifications/progress" {
		return nil
	}
	return c.calls[idKey(Text(m.Object, "params", "progressToken"))]
}

// idKey returns the key of an id, which does not depend on escapes in it.
func idKey(id string) string {
	if !strings.Contains(id, `\`) {
		return id
	}
	if v, err := Decode(id); err == nil {
		return Encode(v)
	}
	return id
}

// respond answers a request of the server.
func (c *Conn) respond(m Message) {
	var answer string
	switch {
	case c.Answer != nil:
		answer = c.Answer(m)
	case m.Method == "ping":
		answer = `"result":{}`
	default:
		answer = `"error":{"code":-32601,"message":"Method not found"}`
	}
	if answer != "" {
		_, _ = c.Say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,` + answer + `}`)
	}
}

// lost fails all calls, since their shared stream has ended.
func (c *Conn) lost(err error) {
	c.mu.Lock()
	c.ended = err
	close(c.more)
	c.more = make(chan struct{})
	calls := c.calls
	c.calls = make(map[string]*Call)
	c.mu.Unlock()
	for _, call := range calls {
		call.fail(err)
	}
}

// Close ends the session, the program and all streams.
func (c *Conn) Close() (end string, forced bool) {
	if c.Session != "" && c.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(c.ctx, 2*time.Second)
		if res, err := c.target.HTTP.Send(ctx, Request{Method: "DELETE", Header: c.fields()}, c.Watch); err == nil {
			res.Close()
		}
		cancel()
	}
	c.cancel()
	if c.child != nil {
		end, forced = c.child.Close()
	}
	c.work.Wait()
	return end, forced
}

// Child returns the program of a stdio face; nil elsewhere.
func (c *Conn) Child() *Child { return c.child }

// handshake opens a legacy session.
func (c *Conn) handshake() error {
	call, err := c.Start("initialize", `{"protocolVersion":`+Encode(c.Revision)+`,"capabilities":`+c.Capabilities+`,"clientInfo":`+Encode(c.Client)+`}`)
	if err != nil {
		return err
	}
	m, err := call.Wait()
	if err != nil {
		return err
	}
	if m.Failed() {
		return &ErrRefused{"initialize", m}
	}
	c.Server = m.Result()
	c.Agreed = Text(c.Server, "protocolVersion")
	if c.Agreed == "" {
		return errors.New("the result of initialize names no protocolVersion: " + m.Raw)
	}
	if c.Face == LegacyHTTP && !c.NoListening {
		c.openListening()
	}
	_, err = c.Notify("notifications/initialized", "")
	return err
}

// String names the call in messages.
func (c *Call) String() string { return c.Method + " (id " + strings.Trim(c.ID, `"`) + ")" }
