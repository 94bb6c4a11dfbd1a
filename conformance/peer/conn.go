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

// Conn is a conversation. Its methods may be called from any goroutine; Close it.
type Conn struct {
	Settings
	target *Target
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup // what reads

	child   *Child // of a stdio face
	post    string // where a client of HTTP+SSE posts to
	Session string // of a legacy HTTP session; empty: the server gave none
	Server  Object // the result of initialize
	Agreed  string // the revision that the server has answered initialize with; that of Settings for a modern one

	mu     sync.Mutex
	last   int
	calls  map[string]*Call // by id, those that are not answered
	other  []Message        // what belongs to no call
	more   chan struct{}    // closed when something is added to other
	ended  error            // of the one stream that all share; nil: it goes on
	listen bool             // a GET stream is open
}

// maxOther limits the kept messages that belong to no call.
const maxOther = 4096

func newConn(ctx context.Context, t *Target, s Settings) *Conn {
	c := &Conn{Settings: s, target: t, calls: make(map[string]*Call), more: make(chan struct{}), Agreed: s.Revision}
	c.ctx, c.cancel = context.WithCancel(ctx)
	return c
}

// Call is a request that was sent.
type Call struct {
	ID     string // as it stands in the request
	Method string
	Sent   string // the message
	conn   *Conn
	stop   context.CancelFunc

	mu     sync.Mutex
	got    []Message // all that has come for it, in order; notifications and questions on its own stream too
	answer int       // of got, the response; -1: none yet
	err    error     // why there will be none
	more   chan struct{}
	Status int // of HTTP; 0 elsewhere, or while none has come
	ended  chan struct{}
}

// Start sends a request. params is a JSON object, or empty for none; what a modern request needs in _meta is added unless it has it.
func (c *Conn) Start(method, params string, more ...Field) (*Call, error) {
	c.mu.Lock()
	c.last++
	id := strconv.Itoa(c.last)
	c.mu.Unlock()
	return c.StartAs(id, method, params, more...)
}

// StartAs is Start with an id, as it is to be written. more sets or drops fields of an HTTP request's head.
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

// meta adds what 2026-07-28 wants of each request.
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
		return params // it is wrong on purpose
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

// Result is Request for a result; an error response is an ErrRefused.
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

// take sorts a message that came. on is the call on whose own stream it came; nil: a stream that all share.
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

// owner is the call that a notification on a shared stream names: by its progress token, which is the id as text.
func (c *Conn) owner(m Message) *Call {
	if m.Method != "notifications/progress" {
		return nil
	}
	return c.calls[idKey(Text(m.Object, "params", "progressToken"))]
}

// idKey is an id as a map's key: however a text is escaped, it is the same id.
func idKey(id string) string {
	if !strings.Contains(id, `\`) {
		return id
	}
	if v, err := Decode(id); err == nil {
		return Encode(v)
	}
	return id
}

// respond answers a question of the server's.
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

// lost tells all calls that their shared stream has ended.
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

// Close ends the conversation: the session, the program, all streams.
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

// Child is the program of a stdio face; nil elsewhere.
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
