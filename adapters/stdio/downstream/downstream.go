// Package downstream serves the client at the other end of the proxy's own stdin and stdout.
package downstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"dragoman/adapters/rules"
	"dragoman/adapters/stdio/lines"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

// Server serves one client over a pair of pipes, in both eras: each request has its own.
type Server struct {
	Handle   proxy.Handler
	Store    *session.Store
	In       io.Reader
	Out      io.Writer
	MaxLine  int           // limit of a line in bytes; longer ones are refused
	Cap      time.Duration // time after which a request without a response is given up
	InFlight int           // requests in flight at which reading pauses
	// Note, if not nil, is called with events for the log; err may be nil.
	Note func(level, text string, err error)
}

// flushTime limits how long a client that does not read can delay the end.
const flushTime = 5 * time.Second

// errGone cancels the requests in flight when the client has closed its side.
var errGone = errors.New("stdio: the client has closed its side")

// errStalled reports that the output could not be written.
var errStalled = errors.New("stdio: the client does not read")

// Serve reads until the client closes its side or ctx ends. Then it cancels the requests in flight and waits for them.
// The error is that of reading or writing; nil at the end of the input.
func (d *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	out := lines.NewWriter(d.Out, lines.WriterOptions{MaxLine: d.MaxLine})
	c := &client{d: d, out: out, ctx: ctx, modern: make(map[string]*proxy.Exchange), waiting: make(map[string]*proxy.Exchange), slots: make(chan struct{}, d.InFlight),
		listens: make(chan struct{}, d.InFlight)}
	ended := make(chan error, 1)
	go func() { ended <- c.read() }() // ends with the input; a terminal may never end, so Serve does not wait for it
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	draining := ctx.Err() != nil
	cancel(errGone)
	c.end(draining)
	flush, stop := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer stop()
	if !c.wait(flush) {
		return errStalled
	}
	if ferr := out.Flush(flush); err == nil && !errors.Is(ferr, io.ErrClosedPipe) {
		err = ferr
	}
	out.Shut(errGone)
	return err
}

// wait waits for the requests to end. If ctx ends first, because the client does not read, it returns false, and requests
// that wait for room to write are refused. A request whose answer is half written ends with the output.
func (c *client) wait(ctx context.Context) bool {
	done := make(chan struct{})
	go func() { c.group.Wait(); close(done) }() // ends with the requests
	select {
	case <-done:
		return true
	case <-ctx.Done():
		c.out.Fail(errStalled)
		return false
	}
}

// client is the state of the client.
type client struct {
	d              *Server
	out            *lines.Writer
	ctx            context.Context
	group          sync.WaitGroup
	slots, listens chan struct{}

	mu     sync.Mutex
	sess   *proxy.Session
	modern map[string]*proxy.Exchange // modern requests in flight, by id
	over   bool

	setup    setup
	waiting  map[string]*proxy.Exchange // legacy requests that wait for a new session, by id
	renewing *renewal                   // nil if no session is being opened
	next     *proxy.Session             // the session being opened, once it is initialized
}

func (c *client) read() error {
	r := lines.NewReader(c.d.In, c.d.MaxLine)
	for {
		line, err := r.ReadLine()
		var long *lines.LineTooLongError
		switch {
		case errors.As(err, &long):
			c.reply(proxy.ErrorMessage(nil, proxy.Errf(proxy.RequestTooLarge, "a line is longer than limits.line, %d bytes", long.Limit)))
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		default:
			c.line(bytes.Clone(line))
		}
	}
}

func (c *client) reply(m wire.Message) { _ = c.write(&m) } // read notices a client that is gone

// write writes a message, a large one without copying it. A response too long for a line becomes an error, because the
// client waits for a response.
func (c *client) write(m *wire.Message) error {
	var err error
	if len(m.Raw) >= lines.ChunkSize && !m.Lines {
		err = c.out.WriteParts(context.Background(), m.Parts(nil)...)
	} else {
		s := lines.Borrow(m.Size())
		s.B = m.AppendLine(s.B)
		err = c.out.Write(s.B)
		s.Free()
	}
	var long *lines.LineTooLongError
	if errors.As(err, &long) && m.IsResponse() {
		// The client's id, after edits: m.Raw may hold another.
		id := m.AppendPart(nil, m.ID)
		tooLong := proxy.ErrorMessage(id, proxy.Errf(proxy.ResponseTooLarge, "the answer is longer than limits.line, %d bytes", long.Limit))
		err = c.out.Write(tooLong.Raw)
	}
	return err
}

// line handles one message.
func (c *client) line(raw []byte) {
	m, err := wire.Scan(raw)
	if err != nil {
		f := proxy.InvalidRequest
		var se *wire.ScanError
		if errors.As(err, &se) && se.Code == wire.CodeParse {
			f, m.ID = proxy.Parse, wire.Span{}
		}
		c.reply(proxy.ErrorMessage(m.Of(m.ID), proxy.Errf(f, "the line is no JSON-RPC message: %w", err)))
		return
	}
	switch {
	case m.Kind == wire.Batch:
		c.batch(&m)
	case m.Is("notifications/cancelled"):
		c.cancel(string(m.Of(m.RequestID)))
	case m.Kind == wire.Request && rules.Classify(&m, "", nil) == proxy.Modern:
		c.serveModern(&m)
	default:
		c.serveLegacy(&m)
	}
}

// batch handles an array of messages (revision 2025-03-26). Each response is a message of its own.
func (c *client) batch(m *wire.Message) {
	sess := c.session()
	if sess == nil || !rules.HasBatches(sess.Client().Version) {
		c.reply(proxy.ErrorMessage(nil, proxy.Errf(proxy.InvalidRequest, "arrays of messages exist in revision 2025-03-26 only")))
		return
	}
	if err := checkArray(m); err != nil {
		c.reply(proxy.ErrorMessage(nil, err))
		return
	}
	for _, s := range wire.Items(m.Raw, m.Whole()) {
		c.line(s.Of(m.Raw))
	}
}

// checkArray returns why an array of messages is refused as a whole: it has too many, or two requests with one id; nil if it is not.
func checkArray(array *wire.Message) *proxy.Error {
	seen := map[string]bool{}
	for i, s := range wire.Items(array.Raw, array.Whole()) {
		if i >= rules.MaxBatch {
			return proxy.Errf(proxy.InvalidRequest, "more than %d messages in one array", rules.MaxBatch)
		}
		m, err := wire.Scan(s.Of(array.Raw))
		if err != nil || m.Kind != wire.Request {
			continue
		}
		id := string(m.Of(m.ID))
		if seen[id] {
			return proxy.Errf(proxy.DuplicateID, "two requests of the array have the id %s", id)
		}
		seen[id] = true
	}
	return nil
}

func (c *client) session() *proxy.Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sess
}

// cancel cancels the request with an id (raw JSON), of either era.
func (c *client) cancel(id string) {
	c.mu.Lock()
	ex, waiting, sess := c.modern[id], c.waiting[id], c.sess
	delete(c.modern, id) // it gets no answer, so its id may be reused
	c.mu.Unlock()
	switch {
	case ex != nil:
		ex.Cancel(proxy.ErrCancelled)
	case waiting != nil:
		waiting.Cancel(proxy.ErrCancelled)
	case sess != nil:
		sess.CancelRequest([]byte(id))
	}
}

// run starts one request; it waits while too many are in flight. Listens are counted apart, because they last; a listen
// beyond InFlight is refused. A legacy request is entered in sess before the next line is read, which may cancel it.
func (c *client) run(ex *proxy.Exchange, sess *proxy.Session, done func()) {
	slots := c.slots
	if ex.Msg.Is("subscriptions/listen") {
		slots = c.listens
		if len(slots) == cap(slots) {
			c.reply(proxy.ErrorMessage(ex.Msg.Of(ex.Msg.ID), proxy.Errf(proxy.TooManySessions, "%d listens are open already", cap(slots))))
			done()
			return
		}
	}
	select {
	case slots <- struct{}{}:
	case <-c.ctx.Done():
		return
	}
	if sess != nil {
		a := &attempt{c: c, ex: ex, sess: sess}
		handle := a.watch(session.Enter(sess, ex, c.d.Handle))
		c.group.Go(func() {
			defer func() { <-slots }()
			session.Pump(ex, handle, c.d.Cap, func(m *wire.Message) error {
				if a.hold(m) {
					return nil
				}
				return c.write(m)
			})
			a.finish()
		})
		return
	}
	c.group.Go(func() {
		defer func() { <-slots; done() }()
		session.Pump(ex, c.d.Handle, c.d.Cap, func(m *wire.Message) error {
			if m.IsResponse() {
				done() // before writing: a client may reuse the id as soon as it has read the answer
			}
			return c.write(m)
		})
	})
}

func (c *client) serveModern(m *wire.Message) {
	if err := rules.Envelope(m); err != nil {
		c.reply(proxy.ErrorMessage(m.Of(m.ID), err))
		return
	}
	id := string(m.Of(m.ID))
	ex := &proxy.Exchange{Msg: *m, Client: proxy.Client{Era: proxy.Modern, Version: rules.Named(m), Info: m.Of(m.Info),
		Caps: m.Of(m.Caps), LogLevel: string(m.Text(m.LogLevel))}}
	c.mu.Lock()
	if _, dup := c.modern[id]; dup {
		c.mu.Unlock()
		c.reply(proxy.ErrorMessage(m.Of(m.ID), proxy.Errf(proxy.DuplicateID, "a request with this id is still unanswered; use a new id")))
		return
	}
	c.modern[id] = ex
	c.mu.Unlock()
	c.run(ex, nil, func() {
		c.mu.Lock()
		if c.modern[id] == ex { // the id may have been reused
			delete(c.modern, id)
		}
		c.mu.Unlock()
	})
}

// serveLegacy handles a message in the session, which initialize opens and the end of the pipes closes. If the server's
// session is lost, the client's next request, or initialize, opens a new one.
func (c *client) serveLegacy(m *wire.Message) {
	sess := c.session()
	if m.Is("initialize") && m.Kind == wire.Request && (sess == nil || sess.State() == proxy.Created || sess.State() >= proxy.Closed) {
		c.initialize(m)
		return
	}
	if m.Kind != wire.Request {
		if sess = c.sessionOf(m); sess != nil && sess.State() < proxy.Closed {
			session.Deliver(sess, &proxy.Exchange{Msg: *m}, c.d.Handle)
		}
		return
	}
	if sess == nil || sess.State() >= proxy.Closed {
		if !c.postpone(m, sess) {
			c.refuseSessionless(m, sess)
		}
		return
	}
	c.run(&proxy.Exchange{Msg: *m}, sess, func() {})
}

// refuseSessionless refuses a request outside a session.
func (c *client) refuseSessionless(m *wire.Message, sess *proxy.Session) {
	if sess == nil && m.Is("ping") {
		answer, _ := rules.Early(m)
		c.reply(answer)
		return
	}
	err := proxy.Errf(proxy.SessionMissing, "send initialize first, or the members of revision %s in params._meta", rules.ModernVersion)
	if sess != nil {
		err = proxy.Errf(proxy.SessionLost, "the session with the upstream server is lost; send initialize to open a new one")
	}
	c.reply(proxy.ErrorMessage(m.Of(m.ID), err))
}

func (c *client) initialize(m *wire.Message) {
	sess, err := c.d.Store.Create("stdio", "", proxy.Caller{})
	if err != nil {
		c.reply(proxy.ErrorMessage(m.Of(m.ID), err))
		return
	}
	sess.SetOutlet(c)
	c.mu.Lock()
	c.sess, c.setup = sess, setup{}
	c.mu.Unlock()
	var known setup
	// The next message is read only after the handshake, because it may depend on its outcome.
	session.Pump(&proxy.Exchange{Msg: *m}, func(ex *proxy.Exchange) (proxy.Replies, error) {
		replies, err := session.Run(sess, ex, c.d.Handle)
		return session.Handshake(replies), err
	}, c.d.Cap, func(r *wire.Message) error {
		if r.Kind == wire.Result {
			known = setupFrom(m, r)
		}
		return c.write(r)
	})
	opened := sess.State() == proxy.Initialized
	c.mu.Lock()
	if c.setup = known; !opened {
		c.sess, c.setup = nil, setup{}
	}
	c.mu.Unlock()
	if !opened {
		c.d.Store.Remove(sess)
	}
}

// Push implements proxy.Outlet.
func (c *client) Push(msg []byte) error { return c.out.Write(lines.Flatten(nil, msg)) }

// End implements proxy.Outlet. It does nothing, because the pipes outlive a session.
func (c *client) End() {}

// end cancels the requests in flight and ends the session. If draining is true, the proxy ends, not the client, and listens
// end as the protocol specifies for servers.
func (c *client) end(draining bool) {
	c.mu.Lock()
	c.over = true
	sess := c.sess
	inFlight := slices.AppendSeq(slices.Collect(maps.Values(c.modern)), maps.Values(c.waiting))
	c.mu.Unlock()
	for _, ex := range inFlight {
		if draining && ex.Msg.Is("subscriptions/listen") {
			ex.Cancel(proxy.ErrDraining)
			continue
		}
		ex.Cancel(errGone)
	}
	if sess != nil {
		c.d.Store.Remove(sess)
	}
}
