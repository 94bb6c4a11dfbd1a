package load

import (
	"bufio"
	"bytes"
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
	endLimit    = 5 * time.Second
	maxFailures = 10      // in a row; then a connection gives up
	numbers     = 1 << 24 // calls that one connection may number
)

// worker is one connection. It is used by one goroutine at a time.
type worker struct {
	plan     Plan
	conn     net.Conn
	reader   *bufio.Reader
	response fasthttp.Response
	session  session
	template template
	checker  checker
	stream   *stream // of a two-way client; the plan's path is where it posts
	// streamPath is what the plan's path was.
	streamPath string
	next       uint64 // the number of the next call; no two workers share one

	latency *hdrhistogram.Histogram // of right answers, in nanoseconds; nil for a Caller
	errors  uint64
	strays  uint64
	first   error
}

func newWorker(p *Plan, index int) *worker {
	return &worker{
		plan: *p, streamPath: p.Path,
		next:   uint64(index) * numbers,
		reader: bufio.NewReaderSize(nil, readBuffer),
	}
}

// open connects and, for a legacy client, opens the session.
func (w *worker) open(ctx context.Context) error {
	w.close()
	if w.plan.Transport == TwoWay {
		if err := w.openStream(ctx); err != nil {
			return err
		}
	}
	if err := w.dial(ctx); err != nil {
		return err
	}
	var s session
	if w.plan.Era == Legacy {
		var err error
		if s, err = w.initialize(); err != nil {
			return err
		}
	}
	w.session, w.template = s, newTemplate(&w.plan, s)
	return nil
}

// end ends the session, if there is one to end, and closes.
func (w *worker) end() error {
	if w == nil {
		return nil
	}
	defer w.close()
	if w.session.id == "" || w.conn == nil {
		return nil
	}
	bye := "DELETE " + w.plan.Path + " HTTP/1.1\r\nHost: " + w.plan.Addr + "\r\nMCP-Protocol-Version: " + w.session.version +
		"\r\nMcp-Session-Id: " + w.session.id + "\r\n\r\n"
	return w.exchange([]byte(bye), time.Now().Add(endLimit))
}

// dial connects for what is posted; a stream stays.
func (w *worker) dial(ctx context.Context) error {
	w.hangUp()
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
	if w != nil {
		w.hangUp()
		if w.stream != nil {
			w.stream.close()
			w.stream = nil
		}
	}
}

func (w *worker) hangUp() {
	if w.conn != nil {
		_ = w.conn.Close() // nothing is left to lose
		w.conn = nil
	}
}

// initialize makes the handshake of a legacy client.
func (w *worker) initialize() (session, error) {
	version, want := reference.LegacyVersion, fasthttp.StatusOK
	if w.stream != nil {
		version, want = reference.OldestVersion, fasthttp.StatusAccepted
	}
	hello := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + version +
		`","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
	if err := w.post(session{}, "initialize", hello, want); err != nil {
		return session{}, err
	}
	s := session{id: string(w.response.Header.Peek("Mcp-Session-Id"))}
	if s.id == "" && w.stream == nil && !w.plan.Sessionless {
		return s, errors.New("load: initialize was answered without a session id")
	}
	answer, err := w.answer([]byte("0"))
	if err != nil {
		return s, err
	}
	if _, rest, ok := bytes.Cut(answer, []byte(`"protocolVersion":"`)); ok && w.stream == nil {
		settled, _, _ := bytes.Cut(rest, []byte(`"`))
		s.version = string(settled)
	}
	if s.version == "" && w.stream == nil {
		return s, fmt.Errorf("load: initialize: no protocol version in %.*q", quoteLimit, answer)
	}
	const ready = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	return s, w.post(s, "notifications/initialized", ready, fasthttp.StatusAccepted)
}

// answer gives the message that answers the request last written: of the response to it, or of the stream. It holds until
// the next exchange.
func (w *worker) answer(id []byte) ([]byte, error) {
	if w.stream != nil {
		return w.streamed(id)
	}
	return w.checker.message(w.response.StatusCode(), w.response.Header.ContentType(), w.response.Body())
}

// post sends one message outside the measured ones.
func (w *worker) post(s session, method, body string, want int) error {
	raw := append(appendHead(nil, &w.plan, s, method, "", len(body)), body...)
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
	if w.conn == nil {
		return errors.New("not connected")
	}
	if err := w.conn.SetDeadline(deadline); err != nil {
		return err
	}
	if w.stream != nil {
		if err := w.stream.conn.SetDeadline(deadline); err != nil {
			return err
		}
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
	if got := w.response.StatusCode(); w.stream != nil && got != fasthttp.StatusAccepted {
		return fmt.Errorf("load: call %s: HTTP status %d: %.*q", w.template.wantID(), got, quoteLimit, w.response.Body())
	}
	message, err := w.answer(w.template.wantID())
	if err != nil {
		return err
	}
	return w.checker.check(&w.template, message)
}

// failed counts an error and connects anew: what else the connection may bring
// belongs to nobody. A two-way client's session ends with its stream, so it opens another.
func (w *worker) failed(ctx context.Context, err error) error {
	if w.errors++; w.first == nil {
		w.first = err
	}
	if w.stream != nil {
		return w.open(ctx)
	}
	return w.dial(ctx)
}
