package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/valyala/fasthttp"

	"dragoman/bench/reference"
)

const (
	readBuffer  = 16 << 10
	maxBody     = 64 << 20
	maxFailures = 10      // in a row; then a connection gives up
	numbers     = 1 << 24 // calls that one connection may number
)

// worker is one connection. It is used by one goroutine at a time.
type worker struct {
	plan     *Plan
	conn     net.Conn
	reader   *bufio.Reader
	response fasthttp.Response
	template template
	checker  checker
	next     uint64 // the number of the next call; no two workers share one

	latency *hdrhistogram.Histogram // of right answers, in nanoseconds
	errors  uint64
	first   error
}

func newWorker(p *Plan, index int) *worker {
	return &worker{
		plan:    p,
		next:    uint64(index) * numbers,
		latency: newHistogram(),
		reader:  bufio.NewReaderSize(nil, readBuffer),
	}
}

// open connects and, for a legacy client, opens the session.
func (w *worker) open(ctx context.Context) error {
	if err := w.dial(ctx); err != nil {
		return err
	}
	session := ""
	if w.plan.Era == Legacy {
		var err error
		if session, err = w.initialize(); err != nil {
			return err
		}
	}
	w.template = newTemplate(w.plan, session)
	return nil
}

func (w *worker) dial(ctx context.Context) error {
	w.close()
	dialer := net.Dialer{Timeout: w.plan.Timeout}
	conn, err := dialer.DialContext(ctx, "tcp", w.plan.Addr)
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	w.conn = conn
	w.reader.Reset(conn)
	return nil
}

func (w *worker) close() {
	if w != nil && w.conn != nil {
		_ = w.conn.Close() // nothing is left to lose
		w.conn = nil
	}
}

// initialize makes the handshake of a legacy client.
func (w *worker) initialize() (string, error) {
	const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + reference.LegacyVersion +
		`","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
	if err := w.post("", "initialize", hello, fasthttp.StatusOK); err != nil {
		return "", err
	}
	session := string(w.response.Header.Peek("Mcp-Session-Id"))
	if session == "" {
		return "", errors.New("load: initialize was answered without a session id")
	}
	const ready = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	return session, w.post(session, "notifications/initialized", ready, fasthttp.StatusAccepted)
}

// post sends one message outside the measured ones.
func (w *worker) post(session, method, body string, want int) error {
	raw := append(appendHead(nil, w.plan, session, method, "", len(body)), body...)
	if err := w.exchange(raw, time.Now().Add(w.plan.Timeout)); err != nil {
		return fmt.Errorf("load: %s: %w", method, err)
	}
	if got := w.response.StatusCode(); got != want {
		return fmt.Errorf("load: %s: HTTP status %d: %.*q", method, got, quoteLimit, w.response.Body())
	}
	return nil
}

// exchange writes a request and reads the response to it.
func (w *worker) exchange(raw []byte, deadline time.Time) error {
	if err := w.conn.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := w.conn.Write(raw); err != nil {
		return err
	}
	w.response.Reset()
	return w.response.ReadLimitBody(w.reader, maxBody)
}

// run calls for the given time, or until ctx ends.
func (w *worker) run(ctx context.Context, duration time.Duration) error {
	now := time.Now()
	end := now.Add(duration)
	failures := 0
	for now.Before(end) && ctx.Err() == nil {
		err := w.call(now)
		after := time.Now()
		if err == nil {
			failures = 0
			_ = w.latency.RecordValue(min(int64(after.Sub(now)), longest)) // within its bounds
		} else if failures++; w.failed(ctx, err) != nil || failures >= maxFailures {
			return err
		}
		now = after
	}
	return nil
}

// call makes one call. The time comes from the caller, who needs it anyway.
func (w *worker) call(now time.Time) error {
	w.template.number(w.next)
	w.next++
	if err := w.exchange(w.template.raw, now.Add(w.plan.Timeout)); err != nil {
		return fmt.Errorf("load: call %s: %w", w.template.wantID(), err)
	}
	r := &w.response
	return w.checker.check(&w.template, r.StatusCode(), r.Header.ContentType(), r.Body())
}

// failed counts an error and connects anew: what else the connection may bring
// belongs to nobody.
func (w *worker) failed(ctx context.Context, err error) error {
	if w.errors++; w.first == nil {
		w.first = err
	}
	return w.dial(ctx)
}

// Once makes one call outside any measurement and returns what is wrong with the
// answer: the way to wait for a server that is starting.
func Once(ctx context.Context, p Plan) error {
	if p.Timeout <= 0 {
		p.Timeout = DefaultTimeout
	}
	w := newWorker(&p, 0)
	defer w.close()
	if err := w.open(ctx); err != nil {
		return err
	}
	return w.call(time.Now())
}
