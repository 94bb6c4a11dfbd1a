package supervisor

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"dragoman/adapters/mux"
	"dragoman/adapters/stdio/lines"
	"dragoman/adapters/stdio/process"
	"dragoman/adapters/stdio/upstream"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// errUnasked is why a line of a spare is no message: nothing was said to it that it could answer.
var errUnasked = errors.New("stdio: nothing was asked yet")

// instance is a child under supervision: a spare, to which nothing has been said, or one behind a link.
type instance struct {
	d      *Dialer
	proc   *process.Process
	ticket *ticket
	stderr *limiter
	reader chan struct{} // closed when the reader has ended, and the process with it
	link   atomic.Pointer[link]
	heard  atomic.Bool // it has said something that is a message

	mu      sync.Mutex
	healthy *time.Timer    // fires when it is no longer young
	patient *time.Timer    // fires when its first answer is overdue; nil: nothing is being waited for
	late    sync.WaitGroup // patient's function, from when it is set until it has returned or cannot run any more
	asked   int            // requests so far, as long as it has not been heard
	probed  bool           // all that it was asked is server/discover
	lived   bool           // it has reached the age for a good start before its first answer was there
	dead    bool           // its output has ended: it cannot be adopted
	closed  bool           // nobody wants it any more
	stopped bool           // and it was alive then: we have ended it
	expired *proxy.Error   // it was stopped because its first answer was overdue
}

// link is a child in use: an transport.Link.
type link struct {
	*mux.Mux
	c    *instance
	sink transport.Sink
}

// launch starts a child for a ticket, which is the child's from then on, and settled here if there is no child. The
// reader is not running yet.
func (d *Dialer) launch(ctx context.Context, t *ticket) (*instance, error) {
	c := &instance{d: d, ticket: t, stderr: newLimiter(time.Now()), reader: make(chan struct{})}
	cmd := d.opt.Command
	pid := make(chan int, 1)
	cmd.Stderr = c.mutter(pid)
	d.starts.Add(1)
	proc, err := process.Start(ctx, cmd)
	if err != nil {
		return nil, d.refused(ctx, t, err)
	}
	pid <- proc.PID()
	c.proc = proc
	d.running.Add(1)
	c.mu.Lock()
	c.healthy = time.AfterFunc(d.grown, c.grown)
	c.mu.Unlock()
	return c, nil
}

// mutter takes what the child writes to stderr. What it writes before its number is known waits for it.
func (c *instance) mutter(pid <-chan int) func([]byte) {
	n := sync.OnceValue(func() int { return <-pid })
	return func(line []byte) {
		pass, dropped := c.stderr.take(time.Now())
		if !pass {
			c.d.dropped.Add(1)
			return
		}
		c.d.opt.Stderr(n(), line, dropped)
	}
}

// first makes a child whose reader does not run yet the process behind a link.
func (c *instance) first(server proxy.Era, sink transport.Sink) *link {
	l := &link{c: c, sink: sink}
	l.Mux = mux.NewLines(server, c, sink)
	c.link.Store(l)
	return l
}

// adopt makes a spare the process behind a link; nil if it has ended already, or is ending.
func (c *instance) adopt(server proxy.Era, sink transport.Sink) *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead || c.closed {
		return nil
	}
	select {
	case <-c.proc.Done():
		return nil
	default:
	}
	return c.first(server, sink)
}

// read hands lines to the mux until the child closes its output; then the child is stopped, and whoever waits is told.
func (c *instance) read() {
	defer close(c.reader)
	defer c.d.running.Add(-1)
	for {
		line, err := c.proc.ReadLine()
		if err != nil {
			if !c.unread(err) {
				return
			}
			continue
		}
		switch l := c.link.Load(); {
		case l == nil:
			c.d.noise(c.proc.PID(), line, errUnasked)
		case c.proc.Ended() && !upstream.Complete(line): // cut off by the child's end, which comes next and says more
		default:
			if err := l.Deliver(line); err != nil {
				c.d.noise(c.proc.PID(), line, err)
			} else {
				c.answered()
			}
		}
	}
}

// unread takes what ReadLine failed with; false: nothing more will come.
func (c *instance) unread(err error) bool {
	var long *lines.LineTooLongError
	if !errors.As(err, &long) {
		c.ended(err)
		return false
	}
	c.d.noise(c.proc.PID(), long.Prefix, err)
	if l := c.link.Load(); l != nil {
		l.TooLong(long.Prefix, long.Suffix, proxy.Errf(proxy.ResponseTooLarge,
			"the upstream server's answer is a line longer than limits.line, %d bytes", long.Limit))
		c.answered()
	}
	return true
}

// Keep implements mux.Lines.
func (c *instance) Keep() (release func()) { return c.proc.Keep() }

// Run implements mux.Lines.
func (c *instance) Run() wire.Run { return c.proc.Run() }

// WriteParts implements mux.Lines.
func (c *instance) WriteParts(ctx context.Context, parts ...[]byte) error {
	err := c.proc.WriteScanned(ctx, parts...)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, process.ErrStopped): // before the line was accepted
		return proxy.Errf(proxy.SessionLost, "%s was stopped", upstream.Called(c.d.opt.Name))
	}
	var long *lines.LineTooLongError
	if errors.As(err, &long) {
		return proxy.Errf(proxy.RequestTooLarge, "the message is longer than limits.line, %d bytes", long.Limit)
	}
	if c.exits() {
		return c.crash(err)
	}
	return proxy.Errf(proxy.Lost, "%s does not take requests: %w", upstream.Called(c.d.opt.Name), err)
}

// exits waits for the exit of a child that seems to have ended. It may have closed its pipes and live on.
func (c *instance) exits() bool {
	select {
	case <-c.proc.Done():
		return true
	default:
	}
	timer := time.NewTimer(exitTime)
	defer timer.Stop()
	select {
	case <-c.proc.Done():
		return true
	case <-timer.C:
		return false
	}
}

// how says how the child has ended, err being what its output ended with.
func (c *instance) how(err error) string {
	return ending(c.proc.Exit(), err, time.Since(c.ticket.began))
}

func (c *instance) crash(err error) *proxy.Error {
	return crashed(c.d.opt.Name, c.how(err), c.proc.Exit(), c.proc.StderrTail())
}

// ended is called when the child's output has: whoever waits is told first, and the child is stopped then.
func (c *instance) ended(err error) {
	c.mu.Lock()
	ours := c.stopped || c.expired != nil
	c.mu.Unlock()
	if !ours {
		c.exits()
	}
	c.mu.Lock()
	c.dead = true
	c.calm()
	closed, stopped, fault, probed := c.closed, c.stopped, c.expired, c.probed
	l := c.link.Load()
	c.mu.Unlock()
	if l == nil {
		defer c.d.spares.group.Done()
		c.d.spareEnded(c)
	}
	if !stopped && fault == nil {
		fault = c.crash(err)
		c.d.crashes.Add(1)
		c.judge(c.how(err)+words(c.proc.StderrTail()), l == nil, probed && !c.heard.Load())
	}
	if l != nil && fault != nil {
		l.Fail(fault)
		if !closed {
			l.sink.Lost(fault)
		}
	}
	c.proc.Stop()
	if n := c.stderr.rest(); n > 0 {
		c.d.opt.Stderr(c.proc.PID(), nil, n)
	}
}

// judge enters an uninvited end into the books. A legacy server may answer server/discover by ending: that is how it
// says that it does not know it, and tells nothing about its health.
func (c *instance) judge(how string, spare, byProbe bool) {
	switch {
	case byProbe:
		c.ticket.drop()
	case spare || time.Since(c.ticket.began) < c.d.grown:
		c.ticket.fail(how)
	default:
		c.ticket.succeed()
	}
}

// grown is called when the child has reached the age at which its start was good, unless its first answer is overdue yet.
func (c *instance) grown() {
	c.mu.Lock()
	waiting := c.patient != nil && !c.heard.Load()
	c.lived = waiting
	over := c.dead || c.closed || c.expired != nil
	c.mu.Unlock()
	if !waiting && !over {
		c.ticket.succeed()
	}
}

// lasting are requests that a server may answer late, or with nothing but notices.
func lasting(m *wire.Message) bool {
	return m.Is("tools/call") || m.Is("tasks/result") || m.Is("subscriptions/listen")
}

// ask notes a request to a child that has not been heard yet, and begins to wait for its first answer.
func (c *instance) ask(m *wire.Message) {
	if c.heard.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probed = m.Is("server/discover") && (c.asked == 0 || c.probed)
	c.asked++
	if c.patient == nil && !lasting(m) && !c.closed && !c.dead && !c.heard.Load() {
		c.late.Add(1)
		c.patient = time.AfterFunc(c.d.opt.StartTimeout, c.overdue)
	}
}

// answered notes the child's first message.
func (c *instance) answered() {
	if c.heard.Load() {
		return
	}
	c.mu.Lock()
	c.heard.Store(true)
	lived := c.lived
	if c.patient != nil && c.patient.Stop() {
		c.late.Done()
	}
	c.mu.Unlock()
	if c.ticket.trial || lived {
		c.ticket.succeed()
	}
}

// overdue ends a child that has not answered its first request in time.
func (c *instance) overdue() {
	defer c.late.Done()
	c.mu.Lock()
	if c.heard.Load() || c.closed || c.dead {
		c.mu.Unlock()
		return
	}
	limit := c.d.opt.StartTimeout
	fault := silent(c.d.opt.Name, limit, c.proc.StderrTail())
	c.expired = fault
	l := c.link.Load()
	c.mu.Unlock()
	c.ticket.fail("did not answer its first request within " + upstream.Duration(limit) + words(c.proc.StderrTail()))
	l.Fail(fault) // only a link asks, so there is one
	c.proc.Stop()
}

// calm stops the timers. The caller holds c.mu.
func (c *instance) calm() {
	c.healthy.Stop()
	if c.patient != nil && c.patient.Stop() {
		c.late.Done()
	}
}

// close stops and reaps the child. If it has ended by itself just before, that is its end all the same.
func (c *instance) close() {
	c.mu.Lock()
	first := !c.closed && !c.dead && c.expired == nil && c.proc.Exit() == nil
	c.closed, c.stopped = true, c.stopped || first
	c.calm()
	mute := c.asked > 0 && !c.heard.Load()
	l := c.link.Load()
	c.mu.Unlock()
	if first {
		if mute {
			c.ticket.drop()
		} else {
			c.ticket.succeed()
		}
		if l != nil {
			l.Fail(proxy.Errf(proxy.Lost, "%s was stopped", upstream.Called(c.d.opt.Name)))
		}
	}
	c.proc.Stop()
	<-c.reader
	c.late.Wait()
}

// Call implements transport.Link.
func (l *link) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	l.c.ask(&ex.Msg)
	return l.Mux.Call(ex)
}

// Close implements transport.Link: the child is stopped and reaped.
func (l *link) Close() error {
	l.c.close()
	return nil
}

// LastWords are the child's last lines on stderr, as the end of a sentence; empty if there are none.
func (l *link) LastWords() string { return words(l.c.proc.StderrTail()) }

// PID is the child's process id.
func (l *link) PID() int { return l.c.proc.PID() }
