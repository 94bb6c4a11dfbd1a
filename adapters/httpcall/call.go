package httpcall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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

// Limits bound what is read of a server's answer.
type Limits struct {
	Body  int // bytes of a JSON body
	Event int // bytes of one event
}

// MaxErrorBody limits the body of an error answer, in bytes.
const MaxErrorBody = 64 << 10

// Call is one POST to a server as proxy.Replies. The answer is JSON or an event stream, and is read as it arrives.
type Call struct {
	callState
	split eventstream.Splitter
}

// callState is a Call without the Splitter, so that Clear can keep the Splitter's buffers.
type callState struct {
	Answer httpclient.Response
	Limits Limits
	// Head, if not nil, is called once with the answer's head.
	Head func(status int, h *http1.Fields)
	// Cancelled, if not nil, is called once if the call is given up before its response. It must not block.
	Cancelled func()
	// InSession reports that the request named a session, so that a 404 means that the session is gone.
	InSession bool
	ID        []byte // id of the request as sent, raw JSON
	// Reopen, if not nil, requests what follows the event with the given id, after a stream ended without the response
	// (legacy only). It does not wait for the answer's head.
	Reopen func(ctx context.Context, last []byte) (httpclient.Response, error)
	// Stray, if not nil, is called with each response on the stream that is for another request. It is dropped.
	Stray func(m *wire.Message)

	ex     *proxy.Exchange
	host   *httpclient.Host
	again  again
	state  state
	body   *[]byte        // of buffers; nil if not needed
	m      wire.Message   // message read last
	batch  []wire.Message // rest of an array that came in one event
	status int
	// retryAfter is the head's Retry-After, in seconds.
	retryAfter int
	// location is where a redirect leads.
	location string
	// streamed reports that the answer is an event stream, whose end may still have to be read.
	streamed bool
	once     sync.Once
	mu       sync.Mutex
	over     bool // the response was read, or the call was aborted
}

type state uint8

const (
	awaiting  state = iota // waiting for the head
	reading                // reading a JSON body
	streaming              // reading an event stream
	broken                 // the stream ended without the response and is to be reopened
	reopening              // waiting for the head of the reopened stream
	complete               // the response has been returned
)

// Do sends the message of ex, with its edits, in req to host, and attaches the call to ex, so that cancelling ex aborts it.
// req is of PostTemplate, without a body; Do releases it. The error is one of Fault, or ex's own if ex was cancelled
// meanwhile: the server may have received the request then, so Do calls Cancelled.
func (c *Call) Do(ex *proxy.Exchange, host *httpclient.Host, req *http1.Request) error {
	parts := setBody(req, &ex.Msg)
	ans, err := host.Send(ex, req)
	req.Release()
	if parts != nil {
		clear(*parts)
		partLists.Put(parts)
	}
	if err != nil {
		if ex.Err() == nil {
			return Fault(err)
		}
		if c.Cancelled != nil {
			c.Cancelled()
		}
		return ex.Err()
	}
	c.Answer, c.ex, c.host = ans, ex, host
	ex.Attach(c)
	return nil
}

// Clear implements proxy.Clearer. It keeps the Splitter's buffers.
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

// head waits for the answer's head and chooses how to read the body.
func (c *Call) head(until time.Time) error {
	status, h, err := c.Answer.Head(until)
	if err != nil {
		return err
	}
	if c.Head != nil {
		c.Head(status, h)
	}
	c.status, c.retryAfter = status, RetryAfter(h)
	if status >= 300 && status < 400 {
		c.location = c.host.Hide(c.ex, Redirect(h))
	}
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

// sessionNotFound is the code with which servers report an unknown session beside status 404, some of them with the
// request's id. An error with any other code belongs to the request itself: some servers answer an unknown method or tool
// with 404.
const sessionNotFound = -32001

// json reads a body that is one message. Every body is parsed as a message, whatever the status, because servers send
// protocol errors with many statuses.
func (c *Call) json(until time.Time) error {
	limit := c.Limits.Body
	if c.status >= 400 {
		limit = min(limit, MaxErrorBody)
	}
	var over bool // the limit of an error's body
	body, whole := c.Answer.Whole(limit)
	if !whole {
		if c.body == nil {
			c.body = buffers.Get().(*[]byte)
		}
		var err error
		*c.body, err = c.Answer.Body(*c.body, limit, until)
		if err != nil && (c.status < 400 || errors.Is(err, os.ErrDeadlineExceeded)) {
			return err
		}
		body, over = *c.body, is[*http1.TooLargeError](err)
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
	case c.status < 300 && isPage(body):
		return proxy.Errf(proxy.BadAnswer, "the upstream server answered with %w%s instead of a JSON-RPC message; is the path of its url right (mostly /mcp), and does it want credentials?", transport.ErrPage, titled(c.hidden(body)))
	case c.status < 300 && len(body) > 0 && serr != nil:
		return proxy.Errf(proxy.BadAnswer, "the upstream server's answer is no JSON-RPC message: %w", serr)
	case c.status < 300 && serr == nil:
		return proxy.Errf(proxy.BadAnswer, "the upstream server's answer is not the response to the request")
	}
	page := isPage(body)
	said := c.hidden(body)
	text := Printable(said)
	switch {
	case page:
		text = transport.ErrPage.Error() + titled(said)
	case !c.host.Quotes() && len(body) > 0:
		text = "a body that is not shown, since the address was registered"
	case text == "" && over:
		text = fmt.Sprintf("a body of more than %d bytes", limit)
	}
	return &transport.StatusError{Status: c.status, Text: text, RetryAfter: c.retryAfter, Location: c.location}
}

// hidden returns a body without secrets, which are found before a part of one is cut off; nil of one that errors may not quote.
func (c *Call) hidden(body []byte) []byte {
	if !c.host.Quotes() {
		return nil
	}
	if !c.host.Hides(c.ex) {
		return body
	}
	return []byte(c.host.Hide(c.ex, string(body[:min(len(body), MaxErrorBody)])))
}

// withID adds the request's id to an error that has none. It can only belong to this request.
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
			continue // a priming event, or one of another type
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
			if c.Stray != nil {
				c.Stray(m)
			}
			continue // the answer to another request
		}
		return nil
	}
}

// read returns the next event. An event that is already buffered as a whole, as single answers mostly are, is not copied.
func (c *Call) read() (eventstream.Event, error) {
	if here := c.Answer.Buffered(); len(here) > 0 {
		if ev, n, ok := c.split.Take(here); ok {
			c.Answer.Discard(n)
			return ev, nil
		}
	}
	return c.split.Next(&c.Answer)
}

// unpack splits an array of messages: revision 2025-03-26 lets a server batch its responses.
func (c *Call) unpack() error {
	for _, s := range wire.Items(c.m.Raw, c.m.Whole()) {
		one, err := wire.Scan(bytes.Clone(s.Of(c.m.Raw)))
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

// finish marks the call as complete. At most the end of the answer is still to be read.
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
		if c.body != nil {
			recycle(c.body)
			c.body = nil
		}
	})
	return nil
}

// MintedCall is a Call under an id that Dragoman has chosen.
type MintedCall struct {
	Call
	Minted transport.Minted
	edits  [2]wire.Edit // of the reply returned last
}

// Clear implements proxy.Clearer.
func (c *MintedCall) Clear() {
	c.Call.Clear()
	c.Minted, c.edits = transport.Minted{}, [2]wire.Edit{}
}

// Next implements proxy.Replies. It restores the client's id and progress token.
func (c *MintedCall) Next(until time.Time) (m *wire.Message, err error) {
	if m, err = c.Call.Next(until); err != nil {
		return m, err
	}
	if len(m.Edits) == 0 {
		m.Edits = c.edits[:0]
	}
	c.Minted.Restore(m)
	return m, nil
}

// Fault turns an error of the connection to a server into one of the error table. Known errors and *transport.StatusError
// are returned as they are.
func Fault(err error) error {
	large, tooLarge := errors.AsType[*http1.TooLargeError](err)
	line, isLine := errors.AsType[*eventstream.LimitError](err)
	full, isFull := errors.AsType[*httpclient.ArrivalError](err)
	switch {
	case is[*proxy.Error](err), is[*transport.StatusError](err):
		return err
	case is[*httpclient.DialError](err):
		return proxy.Errf(proxy.Unreachable, "the upstream server cannot be reached: %w", err)
	case errors.Is(err, httpclient.ErrTooManyConns):
		return proxy.Errf(proxy.Overloaded, "too many connections to the upstream server are in use")
	case tooLarge && large.What == http1.ResponseHeader:
		return proxy.Errf(proxy.ResponseTooLarge, "the head of the upstream server's answer is larger than limits.header, %d bytes", large.Limit)
	case tooLarge:
		return proxy.Errf(proxy.ResponseTooLarge, "the upstream server's answer is larger than limits.response_body, %d bytes", large.Limit)
	case isFull && full.Own:
		return proxy.Errf(proxy.Overloaded, "unfinished answers of the upstream server hold its share of limits.arriving_bytes, %d bytes; it sends too much at a time", full.Limit)
	case isFull:
		return proxy.Errf(proxy.Overloaded, "unfinished answers of upstream servers hold all of limits.arriving_bytes, %d bytes; try again", full.Limit)
	case isLine && line.Line:
		return proxy.Errf(proxy.ResponseTooLarge, "the upstream server sent an event stream with a line that is no data and longer than %d bytes", line.Limit)
	case isLine:
		return proxy.Errf(proxy.ResponseTooLarge, "the upstream server sent an event larger than limits.event: %w", err)
	case is[*http1.MalformedError](err):
		return proxy.Errf(proxy.BadAnswer, "the upstream server broke the rules of HTTP: %w", err)
	case httpclient.Unsent(err):
		return proxy.Errf(proxy.Unreachable, "the request could not be sent to the upstream server: %w", err)
	}
	return proxy.Errf(proxy.Lost, "the connection to the upstream server broke before its response: %w", err)
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// Accept is the Accept header of requests to a server.
const Accept = "application/json, text/event-stream"

// setBody makes m with its edits the body of req, which borrows m's memory. It returns the list of the body's parts, from
// partLists; nil if m has no edits.
func setBody(req *http1.Request, m *wire.Message) (parts *[][]byte) {
	if len(m.Edits) == 0 {
		req.Body = m.Raw
		return nil
	}
	parts = partLists.Get().(*[][]byte)
	*parts = m.Parts((*parts)[:0])
	req.Body, req.Behind = (*parts)[0], (*parts)[1:]
	return parts
}

// partLists recycles the slices that hold a message's parts.
var partLists = sync.Pool{New: func() any { return new([][]byte) }}

// NewRequest returns a request with body, which is borrowed until the request is released. A nil body means none.
func NewRequest(method, path string, body []byte) *http1.Request {
	if body == nil {
		return bodyless.Acquire(method, path, nil)
	}
	return PostTemplate.Acquire(method, path, body)
}

// PostTemplate has the headers of requests with a message.
var PostTemplate = http1.NewTemplate("Accept", Accept, "Content-Type", "application/json")

var bodyless = http1.NewTemplate("Accept", Accept)

const (
	firstBuffer = 2 << 10
	maxBuffer   = 4 << 20
)

// buffers recycles the memory of bodies, *[]byte. Very large buffers are left to the garbage collector, so that one large
// body does not cost memory for ever.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, firstBuffer)
	return &b
}}

func recycle(b *[]byte) {
	proxy.Overwrite(*b)
	if cap(*b) <= maxBuffer {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}
