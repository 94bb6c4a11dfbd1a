package upstream

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/eventstream"
	"dragoman/adapters/httpcall"
	"dragoman/adapters/httpd/http1"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// call is one modern request to a service, as proxy.Replies. It sends one HTTP request, a step, after the other. All methods but
// server/discover have one step.
type call struct {
	u        *Upstream
	ex       *proxy.Exchange
	m        wire.Message // the request, its edits applied
	id       []byte       // raw JSON
	opening  []byte       // of the message that answers: resultHead
	token    []byte       // the progress token, raw JSON; nil: none
	logLevel string       // the lowest log level that the client wants; empty: no logs

	step  *step
	state callState
	reply reply
	split eventstream.Splitter

	mu       sync.Mutex
	ans      httpclient.Response
	finished bool // the response was made, or the call was cancelled
	once     sync.Once
	last     wire.Message // what Next returned last
}

// step is one request to the service.
type step struct {
	verb, endpoint string // for errors
	target         string
	body           []byte
	events         bool // the client wants progress or log messages
	handle         answerHandler
}

// what names the step in errors.
func (s *step) what() string { return s.verb + " " + s.endpoint }

// answerHandler turns the complete answer to a step into the response, the next step, or an error that a client may see.
type answerHandler func(c *call, r *reply) (wire.Message, *step, error)

type callState uint8

const (
	awaitingHead callState = iota // the head has not come
	readingBody                   // a JSON body is being read
	streaming                     // an event stream is being read
	complete                      // Next has returned the response
)

// begin sends the request of a step.
func (c *call) begin(s *step) error {
	req := httpcall.NewRequest(s.verb, s.target, s.body)
	defer req.Release()
	accept := "application/json"
	if s.events {
		accept = "text/event-stream, application/json;q=0.9"
	}
	_ = req.Set("Accept", accept)
	ans, err := c.u.host.Send(c.ex, req)
	if err != nil {
		return httpcall.Fault(err) // a timeout here is not the caller's deadline
	}
	c.step, c.state = s, awaitingHead
	c.mu.Lock()
	c.ans = ans
	over := c.finished
	c.mu.Unlock()
	if over { // cancelled in between
		ans.Abort()
	}
	return nil
}

// Next implements proxy.Replies.
func (c *call) Next(until time.Time) (*wire.Message, error) {
	for {
		var done bool
		var err error
		switch c.state {
		case awaitingHead:
			err = c.head(until)
		case readingBody:
			if err = c.load(until); err == nil {
				c.last, done, err = c.finishStep()
			}
		case streaming:
			c.last, done, err = c.event(until)
		default:
			return nil, io.EOF
		}
		if err != nil {
			return nil, c.fault(err)
		}
		if done {
			return &c.last, nil
		}
	}
}

// fault turns an error of the connection into one that a client may see.
func (c *call) fault(err error) error {
	var e *proxy.Error
	if !errors.As(err, &e) && errors.Is(err, os.ErrDeadlineExceeded) {
		return proxy.ErrNotYet
	}
	if cause := c.ex.Err(); cause != nil {
		return cause
	}
	err = httpcall.Fault(err)
	if errors.As(err, &e) && e.Name == proxy.Unreachable.Name {
		c.u.note(e.Message, e.Message)
	}
	return err
}

// head waits for the head of the answer and decides how the body is read.
func (c *call) head(until time.Time) error {
	status, h, err := c.ans.Head(until)
	if err != nil {
		return err
	}
	kind, _, _ := strings.Cut(string(h.ContentType()), ";")
	c.reply = reply{step: c.step, status: status, kind: strings.ToLower(strings.TrimSpace(kind)),
		location: c.u.host.Hide(c.ex, string(h.Peek("Location"))), retryIn: httpcall.RetryAfter(h), begin: len(c.opening), raw: append(c.reply.raw[:0], c.opening...)}
	c.state = readingBody
	if c.reply.kind == "text/event-stream" && status == fasthttp.StatusOK {
		c.state = streaming
		c.split.Reset(c.u.limits.Event)
	}
	return nil
}

// load reads the body. The beginning of an error's body is enough.
func (c *call) load(until time.Time) error {
	r := &c.reply
	limit := c.u.limits.Body
	if r.status >= fasthttp.StatusMultipleChoices {
		limit = min(limit, httpcall.MaxErrorBody)
	}
	var err error
	r.raw, err = c.ans.Body(r.raw, limit, until)
	var large *http1.TooLargeError
	if errors.As(err, &large) && r.status >= fasthttp.StatusMultipleChoices {
		err = nil
	}
	if err == nil {
		r.parse()
		r.hide(c.ex, c.u.host)
	}
	return err
}

// event reads up to the next event that the client wants, or the last one, which has the response.
func (c *call) event(until time.Time) (wire.Message, bool, error) {
	c.ans.SetDeadline(until)
	for {
		ev, err := c.split.Next(c.ans)
		if err == io.EOF {
			return wire.Message{}, false, proxy.Errf(proxy.Lost, "the service ended the event stream of %s without an event named result", c.step.what())
		}
		if err != nil {
			return wire.Message{}, false, err
		}
		var m wire.Message
		give := false
		switch string(ev.Name) {
		case "progress":
			m, give, err = c.progress(ev.Data)
		case "log":
			m, give, err = c.log(ev.Data)
		case "result":
			c.reply.raw = append(make([]byte, 0, len(c.opening)+len(ev.Data)+resultRoom), c.opening...)
			c.reply.raw = append(c.reply.raw, ev.Data...)
			c.reply.parse()
			c.reply.hide(c.ex, c.u.host)
			return c.finishStep()
		}
		if give || err != nil {
			return m, give, err
		}
	}
}

// finishStep passes the complete answer to the step, and sends the next step if there is one.
func (c *call) finishStep() (wire.Message, bool, error) {
	m, next, err := c.step.handle(c, &c.reply)
	if err != nil {
		return m, false, err
	}
	if next != nil {
		c.endAnswer()
		return m, false, c.begin(next)
	}
	c.mu.Lock()
	c.finished = true
	c.mu.Unlock()
	c.endAnswer()
	c.state = complete
	c.u.note("", "")
	return m, true, nil
}

// endAnswer ends an answer of which nothing more is needed.
func (c *call) endAnswer() {
	if c.state == streaming {
		c.ans.Finish()
		return
	}
	c.ans.Close()
}

// progress turns an event into a notification. The token is the client's own, whatever the event has.
func (c *call) progress(data []byte) (wire.Message, bool, error) {
	all, _ := wire.ScanValue(data) // absent if it is not JSON
	if !isNumber(wire.Get(data, all, "progress").Of(data)) {
		return wire.Message{}, false, proxy.Errf(proxy.BadAnswer, "the service sent a progress event of %s whose data has no number `progress`",
			c.step.what())
	}
	if c.token == nil {
		return wire.Message{}, false, nil
	}
	return c.notification("notifications/progress", data, all, []wire.Change{{Key: "progressToken", Value: c.token}})
}

// log turns an event into a notification if its level is high enough for the client.
func (c *call) log(data []byte) (wire.Message, bool, error) {
	all, _ := wire.ScanValue(data) // absent if it is not JSON
	if !all.IsObject(data) {
		return wire.Message{}, false, proxy.Errf(proxy.BadAnswer, "the service sent a log event of %s whose data is no object", c.step.what())
	}
	level := "info"
	var changes []wire.Change
	if at := wire.Get(data, all, "level"); at.IsString(data) && rules.ValidLevel(at.Text(data)) {
		level = string(at.Text(data))
	} else {
		changes = append(changes, wire.Change{Key: "level", Value: []byte(`"info"`)})
	}
	if !wire.Get(data, all, "data").Present() {
		changes = append(changes, wire.Change{Key: "data", Value: []byte("null")})
	}
	if c.logLevel == "" || !rules.Severe(level, c.logLevel) {
		return wire.Message{}, false, nil
	}
	return c.notification("notifications/message", data, all, changes)
}

func (c *call) notification(method string, raw []byte, params wire.Span, changes []wire.Change) (wire.Message, bool, error) {
	p := wire.Message{Raw: raw}
	p.EditObject(params, changes)
	msg := append(wire.AppendText([]byte(`{"jsonrpc":"2.0","method":`), method), `,"params":`...)
	m, err := wire.Scan(append(p.AppendPart(msg, params), '}'))
	if err != nil {
		return m, false, proxy.Errf(proxy.BadAnswer, "the service sent an event of %s that makes no %s: %w", c.step.what(), method, err)
	}
	return m, true, nil
}

// Abort implements proxy.Aborter.
func (c *call) Abort() {
	c.mu.Lock()
	was, ans := c.finished, c.ans
	c.finished = true
	c.mu.Unlock()
	if !was {
		ans.Abort()
	}
}

// Close implements proxy.Replies.
func (c *call) Close() error {
	c.ex.Detach(c)
	c.once.Do(func() {
		if c.state != complete {
			c.Abort()
		}
		c.ans.Close()
		c.reply = reply{}
	})
	return nil
}
