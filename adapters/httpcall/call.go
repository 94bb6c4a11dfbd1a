package httpcall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/eventstream"
	"dragoman/adapters/httpd/http1"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Limits bound what is read of an upstream's answer.
type Limits struct {
	Body  int // bytes of a JSON body
	Event int // bytes of one event
}

// errorBody bounds what is read of an answer that is an error.
const errorBody = 64 << 10

// Call is one POST to an upstream as proxy.Replies: its answer is JSON or an event stream, and is read as it comes.
type Call struct {
	callState
	split eventstream.Splitter
}

// callState is all of a Call but what it reads a stream with.
type callState struct {
	Answer httpclient.Response
	Limits Limits
	// Head, if not nil, sees the answer's head once.
	Head func(status int, h *http1.Fields)
	// Restore, if not nil, undoes in a reply what was changed in the request.
	Restore func(m *wire.Message)
	// Cancelled, if not nil, is called once if the call is given up before its response; it must not wait.
	Cancelled func()
	// InSession says that the request named a session: then a 404 says that the session is gone.
	InSession bool
	ID        []byte // the id under which the request was sent, raw JSON
	// Reopen, if not nil, asks for what follows the event with the given id, on a stream that ended without the response
	// (legacy; modern HTTP has nothing of it). It does not wait for the answer's head.
	Reopen func(ctx context.Context, last []byte) (httpclient.Response, error)

	ex     *proxy.Exchange
	again  again
	state  state
	body   *[]byte        // lent by buffers; nil where none is needed
	m      wire.Message   // that was read last
	batch  []wire.Message // what is left of an array in one event
	status int
	// retryAfter is what the head's Retry-After says, in seconds.
	retryAfter int
	// streamed says that the answer is an event stream, of which an end is still to come.
	streamed bool
	once     sync.Once
	mu       sync.Mutex
	over     bool // the response was read, or the call given up
}

type state uint8

const (
	awaiting  state = iota // the head has not come
	reading                // a JSON body is being read
	streaming              // an event stream is being read
	broken                 // it ended without the response, and is to be opened again at its time
	reopening              // that was asked for, and the head has not come
	complete               // the response was given out
)

// Start makes the call the replies of ex: cancelling ex gives it up.
func (c *Call) Start(ex *proxy.Exchange) *Call {
	c.ex = ex
	ex.Attach(c)
	return c
}

// Clear implements proxy.Clearer. What a stream was read with stays.
func (c *Call) Clear() {
	if c.streamed {
		c.split.Reset(0)
	}
	c.callState = callState{}
}

// Next implements proxy.Replies.
func (c *Call) Next(until time.Time) (*wire.Message, error) {
	err := c.next(until)
	if err != nil {
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, proxy.ErrNotYet
		case c.state == complete:
			return nil, io.EOF
		case c.ex.Err() != nil:
			return nil, c.ex.Err()
		}
		return nil, Fault(err)
	}
	if c.m.IsResponse() {
		c.finish()
	}
	if c.Restore != nil {
		c.Restore(&c.m)
	}
	return &c.m, nil
}

// next reads the next message into c.m.
func (c *Call) next(until time.Time) error {
	for {
		var err error
		switch c.state {
		case awaiting:
			err = c.head(until)
		case reading:
			return c.json(until)
		case streaming:
			if err = c.event(until); err == nil {
				return nil
			}
			err = c.interrupted(err)
		case broken:
			err = c.reopen(until)
		case reopening:
			err = c.reopened(until)
		default:
			return io.EOF
		}
		if err != nil {
			return err
		}
	}
}

// head waits for the answer's head and decides how to read on.
func (c *Call) head(until time.Time) error {
	status, h, err := c.Answer.Head(until)
	if err != nil {
		return err
	}
	if c.Head != nil {
		c.Head(status, h)
	}
	c.status, c.retryAfter = status, RetryAfter(h)
	if isEventStream(h) && status == fasthttp.StatusOK {
		c.state, c.streamed = streaming, true
		c.split.Reset(c.Limits.Event)
		return nil
	}
	c.state = reading
	return nil
}

func isEventStream(h *http1.Fields) bool {
	kind, _, _ := bytes.Cut(h.ContentType(), []byte{';'})
	return bytes.EqualFold(bytes.TrimSpace(kind), []byte("text/event-stream"))
}

// sessionNotFound is what servers say of a session that they do not know, with status 404: some name the request beside it. With any
// other code such an error is the request's own: there are servers that answer an unknown method or tool so.
const sessionNotFound = -32001

// json reads a body that is one message. Every body is tried as one, whatever the status says: errors of the protocol
// come with many.
func (c *Call) json(until time.Time) error {
	limit := c.Limits.Body
	if c.status >= 400 {
		limit = min(limit, errorBody)
	}
	body, whole := c.Answer.Whole(limit)
	if !whole {
		if c.body == nil {
			c.body = buffers.get()
		}
		var err error
		*c.body, err = c.Answer.Body(*c.body, limit, until)
		if err != nil && (c.status < 400 || errors.Is(err, os.ErrDeadlineExceeded)) {
			return err
		}
		body = *c.body
	}
	var serr error
	c.m, serr = wire.Scan(body)
	m := &c.m
	switch {
	case serr == nil && m.Kind == wire.Result && string(m.Of(m.ID)) == string(c.ID):
		return nil
	case serr == nil && m.Kind == wire.Failure && (!m.ID.Present() || string(m.Of(m.ID)) == string(c.ID)):
		if c.status == fasthttp.StatusNotFound && c.InSession && (!m.ID.Present() || m.ErrorCode == sessionNotFound) {
			return proxy.Errf(proxy.SessionLost, "the upstream server has forgotten the session")
		}
		c.withID()
		return nil
	case c.status == fasthttp.StatusNotFound && c.InSession:
		return proxy.Errf(proxy.SessionLost, "the upstream server has forgotten the session")
	case c.status < 300 && len(body) > 0 && serr != nil:
		return proxy.Errf(proxy.BadAnswer, "the upstream server's answer is no JSON-RPC message: %w", serr)
	case c.status < 300 && serr == nil:
		return proxy.Errf(proxy.BadAnswer, "the upstream server's answer is not the response to the request")
	}
	return &transport.StatusError{Status: c.status, Text: printable(body), RetryAfter: c.retryAfter}
}

// withID gives an error that names no request the id of the only one it can be for.
func (c *Call) withID() {
	if c.m.ID.Present() {
		return
	}
	raw := append(append([]byte(`{"jsonrpc":"2.0","id":`), c.ID...), `,"error":`...)
	raw = append(append(raw, c.m.Of(c.m.Error)...), '}')
	if with, err := wire.Scan(raw); err == nil {
		c.m = with
	}
}

// event reads the next message of the stream into c.m.
func (c *Call) event(until time.Time) error {
	if len(c.batch) > 0 {
		c.m, c.batch = c.batch[0], c.batch[1:]
		return nil
	}
	c.Answer.SetDeadline(until)
	m := &c.m
	for {
		ev, err := c.read()
		if err != nil {
			return err
		}
		c.note(&ev)
		if !ev.IsMessage() || len(ev.Data) == 0 {
			continue // a priming event, or another's
		}
		*m, err = wire.Scan(ev.Data)
		switch {
		case err != nil:
			return proxy.Errf(proxy.BadAnswer, "the upstream server sent an event that is no JSON-RPC message: %w", err)
		case m.Kind == wire.Batch:
			return c.unpack()
		case m.Kind == wire.Failure && !m.ID.Present():
			c.withID()
			return nil
		case m.IsResponse() && string(m.Of(m.ID)) != string(c.ID):
			continue // the answer to somebody else's request
		}
		return nil
	}
}

// read reads the next event: where it stands, if all of it is here, as one that answers alone mostly is.
func (c *Call) read() (eventstream.Event, error) {
	if here := c.Answer.Buffered(); len(here) > 0 {
		if ev, n, ok := c.split.Take(here); ok {
			c.Answer.Discard(n)
			return ev, nil
		}
	}
	return c.split.Next(&c.Answer)
}

// unpack takes an array of messages apart: revision 2025-03-26 lets a server batch its responses.
func (c *Call) unpack() error {
	for _, s := range wire.Items(c.m.Raw, c.m.Whole()) {
		one, err := wire.Scan(append([]byte(nil), s.Of(c.m.Raw)...))
		if err != nil {
			return proxy.Errf(proxy.BadAnswer, "the upstream server sent an array with an element that is no message: %w", err)
		}
		c.batch = append(c.batch, one)
	}
	if len(c.batch) == 0 {
		return proxy.Errf(proxy.BadAnswer, "the upstream server sent an empty array")
	}
	c.m, c.batch = c.batch[0], c.batch[1:]
	return nil
}

// finish notes that the response has come; what is left of the answer is at most its end.
func (c *Call) finish() {
	c.state = complete
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
}

// Abort implements proxy.Aborter.
func (c *Call) Abort() {
	c.mu.Lock()
	was, ans := c.over, c.Answer
	c.over = true
	if c.again.gone != nil && !was {
		close(c.again.gone)
	}
	c.mu.Unlock()
	if was {
		return
	}
	ans.Abort()
	if c.Cancelled != nil {
		c.Cancelled()
	}
}

// Close implements proxy.Replies.
func (c *Call) Close() error {
	c.ex.Detach(c)
	c.once.Do(func() {
		switch {
		case c.state != complete:
			c.Abort()
			c.Answer.Close()
		case c.streamed:
			c.Answer.Finish()
		default:
			c.Answer.Close()
		}
		buffers.put(c.body)
		c.body = nil
	})
	return nil
}

// Fault makes an error of the way to an upstream one of the table.
func Fault(err error) error {
	var known *proxy.Error
	var dial *httpclient.DialError
	var large *http1.TooLargeError
	var tooLong *eventstream.LimitError
	var malformed *http1.MalformedError
	switch {
	case errors.As(err, &known):
		return err
	case errors.As(err, &dial):
		return proxy.Errf(proxy.Unreachable, "the upstream server cannot be reached: %w", err)
	case errors.Is(err, httpclient.ErrTooManyConns):
		return proxy.Errf(proxy.Overloaded, "too many connections to the upstream server are in use")
	case errors.As(err, &large):
		return proxy.Errf(proxy.ResponseTooLarge, "the upstream server's answer is larger than limits.response_body, %d bytes", large.Limit)
	case errors.As(err, &tooLong):
		return proxy.Errf(proxy.ResponseTooLarge, "the upstream server sent an event larger than limits.event: %w", err)
	case errors.As(err, &malformed):
		return proxy.Errf(proxy.BadAnswer, "the upstream server broke the rules of HTTP: %w", err)
	case isStatus(err):
		return err
	case httpclient.Unsent(err):
		return proxy.Errf(proxy.Unreachable, "the request could not be sent to the upstream server: %w", err)
	}
	return proxy.Errf(proxy.Lost, "the connection to the upstream server broke before its response: %w", err)
}

func isStatus(err error) bool {
	var s *transport.StatusError
	return errors.As(err, &s)
}

// printable is the beginning of a body for an error message.
func printable(body []byte) string {
	s := strings.ToValidUTF8(string(body[:min(len(body), 300)]), "")
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, s)), " ")
	return s[:min(len(s), 200)]
}

// RetryAfter reads the header of that name, in seconds; 0 if it is absent or a date.
func RetryAfter(h *http1.Fields) int {
	value := h.Peek("Retry-After")
	if value == nil {
		return 0
	}
	n, err := strconv.Atoi(string(value))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// Accept is what a request to an upstream says it takes.
const Accept = "application/json, text/event-stream"

// NewCall makes the request that carries a message to path, as it stands and with its edits; release it with Done once it has been sent.
func NewCall(path string, m *wire.Message) Outgoing {
	if len(m.Edits) == 0 {
		return Outgoing{Request: NewRequest(fasthttp.MethodPost, path, m.Raw)}
	}
	o := Outgoing{parts: partLists.Get().(*[][]byte)}
	*o.parts = m.Parts((*o.parts)[:0])
	all := *o.parts
	o.Request = NewRequest(fasthttp.MethodPost, path, all[0])
	o.Behind = all[1:]
	return o
}

// Outgoing is a request with the memory it stands in.
type Outgoing struct {
	*http1.Request
	parts *[][]byte // of partLists; nil: it has no edits
}

// partLists recycles the places of a message's parts.
var partLists = sync.Pool{New: func() any { return new([][]byte) }}

// Done gives the request back.
func (o Outgoing) Done() {
	o.Request.Release()
	if o.parts != nil {
		clear(*o.parts)
		partLists.Put(o.parts)
	}
}

// NewRequest makes a request with body, which is borrowed until it is released.
func NewRequest(method, path string, body []byte) *http1.Request {
	if body == nil {
		return asking.Acquire(method, path, nil)
	}
	return telling.Acquire(method, path, body)
}

var (
	asking  = http1.NewTemplate("Accept", Accept)
	telling = http1.NewTemplate("Accept", Accept, "Content-Type", "application/json")
)

// String names the state in tests.
func (s state) String() string { return fmt.Sprintf("state(%d)", uint8(s)) }
