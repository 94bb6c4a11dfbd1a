package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// errUnasked is the error of a line from a spare: it has received no request that it could answer.
var errUnasked = errors.New("stdio: no request was sent yet")

// instance is a supervised child: an unused spare, or one behind a link.
type instance struct {
	d      *Dialer
	proc   *process.Process
	ticket *ticket
	stderr *limiter
	reader chan struct{} // closed when the reader, and with it the process, has ended
	link   atomic.Pointer[link]
	ready  atomic.Bool // it has sent a message
	owned  bool        // it serves one caller alone; set before it is behind a link
	unused bool        // it ended as a spare; the reader's

	crashOnce sync.Once
	crashed   *proxy.Error // made by crash

	mu           sync.Mutex
	healthy      *time.Timer    // fires at the age of a good start
	overdueTimer *time.Timer    // fires when its first answer is overdue; nil if none is awaited
	late         sync.WaitGroup // counts overdueTimer's function until it has returned or cannot run any more
	asked        int            // requests before its first message
	probed       bool           // it was sent nothing but server/discover
	served       bool           // a link has given it back
	lived        bool           // it reached the age of a good start before its first answer
	dead         bool           // its output has ended: it cannot be adopted
	closed       bool           // close was called
	stopped      bool           // it was alive when close was called
	expired      *proxy.Error   // set if it was stopped because its first answer was overdue, or it gave no sign of life
}

// link is a child in use, as a transport.Link.
type link struct {
	*mux.Mux
	c    *instance
	sink transport.Sink
}

// launch starts a child for a ticket. The child owns the ticket from then on; if there is no child, launch settles it.
// The reader is not started.
func (d *Dialer) launch(ctx context.Context, t *ticket) (*instance, error) {
	c := &instance{d: d, ticket: t, stderr: newLimiter(time.Now()), reader: make(chan struct{})}
	cmd := d.opt.Command
	pid := make(chan int, 1)
	cmd.Stderr = c.stderrSink(pid)
	d.starts.Add(1)
	proc, err := process.Start(ctx, cmd)
	if err != nil {
		return nil, d.refused(ctx, t, err)
	}
	pid <- proc.PID()
	c.proc = proc
	d.running.Add(1)
	c.mu.Lock()
	c.healthy = time.AfterFunc(d.goodAge, c.reachedGoodAge)
	c.mu.Unlock()
	return c, nil
}

// stderrSink returns the function that receives the child's stderr. Lines written before the process id is known wait for it.
func (c *instance) stderrSink(pid <-chan int) func([]byte) {
	n := sync.OnceValue(func() int { return <-pid })
	return func(line []byte) {
		pass, dropped := c.stderr.take(time.Now())
		if !pass {
			c.d.dropped.Add(1)
			return
		}
		c.d.opt.Stderr(n(), []byte(c.d.opt.Command.Secrets.Hide(string(line))), dropped)
	}
}

// first puts a child whose reader has not been started behind a new link.
func (c *instance) first(server proxy.Era, sink transport.Sink) *link {
	l := &link{c: c, sink: sink}
	l.Mux = mux.NewLines(server, c, sink)
	l.Watch(mux.Watch{Heard: c.proc.Received, Limit: c.d.opt.AliveTimeout, Dead: c.wedged})
	c.link.Store(l)
	return l
}

// adopt puts a spare behind a new link; nil if the spare has ended or is ending.
func (c *instance) adopt(server proxy.Era, sink transport.Sink, owned bool) *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead || c.closed || c.proc.Exit() != nil {
		return nil
	}
	c.owned = owned
	return c.first(server, sink)
}

// read passes lines to the mux until the child closes its output. Then pending calls fail and the child is stopped.
func (c *instance) read() {
	defer func() {
		c.d.running.Add(-1)
		close(c.reader)
		if c.unused { // at last, since Dialer.Close waits for it alone
			c.d.prewarmed.group.Done()
		}
	}()
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
		case c.proc.Ended() && !upstream.Complete(line): // cut off by the child's end, which is reported next
		default:
			if err := l.Deliver(line); err != nil {
				c.d.noise(c.proc.PID(), line, err)
			} else {
				c.answered()
			}
		}
	}
}

// unread handles an error of ReadLine; false if nothing more will come.
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
		if fault := c.fault(); fault != nil {
			return proxy.Unsent(fault)
		}
		return proxy.Errf(proxy.SessionLost, "%s was stopped", upstream.Called(c.d.opt.Name))
	}
	var long *lines.LineTooLongError
	if errors.As(err, &long) {
		return proxy.Errf(proxy.RequestTooLarge, "the message is longer than limits.line, %d bytes", long.Limit)
	}
	if c.proc.ExitsWithin(exitTime) {
		// The child's exit may be known here before its output has ended and the link has failed. A line that was refused for it
		// was not sent, as on a link that has failed.
		if refused := (*lines.RefusedError)(nil); errors.As(err, &refused) {
			return proxy.Unsent(c.crash(err))
		}
		return c.crash(err)
	}
	return proxy.Errf(proxy.Lost, "%s does not take requests: %w", upstream.Called(c.d.opt.Name), err)
}

// how describes the child's end, as the rest of a sentence that begins with the server: by its exit, or by err, which reading
// its output or writing to it returned.
func (c *instance) how(err error) string {
	exit, uptime := c.proc.Exit(), time.Since(c.ticket.began)
	switch {
	case exit != nil && exit.Lost:
		return fmt.Sprintf("was ended after %s because Dragoman's own process that starts servers was killed", upstream.Duration(exit.Uptime))
	case exit != nil && exit.Signal != "":
		return fmt.Sprintf("was ended by %s after %s", exit.Signal, upstream.Duration(exit.Uptime))
	case exit != nil:
		return fmt.Sprintf("exited with code %d after %s", exit.Code, upstream.Duration(exit.Uptime))
	case errors.Is(err, io.EOF):
		return fmt.Sprintf("closed its output after %s", upstream.Duration(uptime))
	}
	return fmt.Sprintf("broke off after %s: %v", upstream.Duration(uptime), err)
}

// crash returns the error of the child's unexpected end: the same one for the reader of its output and for those who write
// to it, whoever is first. err is the error of that read or write. For a child that was ended here it is the reason for that.
func (c *instance) crash(err error) *proxy.Error {
	if fault := c.fault(); fault != nil {
		return fault
	}
	c.crashOnce.Do(func() { c.crashed = crashed(c.d.opt.Name, c.how(err), c.logged(c.proc.Exit()), c.shown()) })
	return c.crashed
}

// fault returns the error for which the child was ended here, because it was late or silent; nil if it was not.
func (c *instance) fault() *proxy.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.expired
}

// ended is called when the child's output has ended. Pending calls fail first, then the child is stopped.
func (c *instance) ended(err error) {
	c.mu.Lock()
	ours := c.stopped || c.expired != nil
	c.mu.Unlock()
	if !ours {
		c.proc.ExitsWithin(exitTime)
	}
	c.mu.Lock()
	c.dead = true
	c.stopTimers()
	closed, stopped, fault, probed := c.closed, c.stopped, c.expired, c.probed && !c.ready.Load()
	l := c.link.Load()
	c.mu.Unlock()
	exit := c.proc.Exit()
	reaperLost := exit != nil && exit.Lost
	if l == nil {
		c.unused = true
		c.d.spareEnded(c, !reaperLost)
	}
	switch {
	case stopped || fault != nil:
	case reaperLost: // which is not the server's fault
		fault = c.crash(err)
		c.ticket.drop()
	default:
		fault = c.crash(err)
		c.d.crashes.Add(1)
		c.judge(c.how(err), l == nil, probed || l == nil && c.served)
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

// judge settles the ticket after an unexpected end. A legacy server may end at server/discover because it does not know
// the method, which says nothing about its health.
func (c *instance) judge(how string, spare, byProbe bool) {
	switch {
	case byProbe:
		c.ticket.drop()
	case spare || time.Since(c.ticket.began) < c.d.goodAge:
		c.ticket.fail(how + c.d.revealed(c.proc.StderrTail()))
	default:
		c.ticket.succeed()
	}
}

// reachedGoodAge is called when the child has reached the age of a good start. The start is good unless the first answer is
// awaited.
func (c *instance) reachedGoodAge() {
	c.mu.Lock()
	waiting := c.overdueTimer != nil && !c.ready.Load()
	c.lived = waiting
	over := c.dead || c.closed || c.expired != nil
	c.mu.Unlock()
	if !waiting && !over {
		c.ticket.succeed()
	}
}

// lasting reports whether a server may answer a request late, or only with notifications.
func lasting(m *wire.Message) bool {
	return m.Is("tools/call") || m.Is("tasks/result") || m.Is("subscriptions/listen")
}

// ask registers a request to a child that has not sent a message yet, and starts the timer for its first answer.
func (c *instance) ask(m *wire.Message) {
	if c.ready.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probed = m.Is("server/discover") && (c.asked == 0 || c.probed)
	c.asked++
	if c.overdueTimer == nil && !lasting(m) && !c.closed && !c.dead && !c.ready.Load() {
		c.late.Add(1)
		c.overdueTimer = time.AfterFunc(c.d.opt.StartTimeout, c.overdue)
	}
}

// answered records the child's first message.
func (c *instance) answered() {
	if c.ready.Load() {
		return
	}
	c.mu.Lock()
	c.ready.Store(true)
	lived := c.lived
	if c.overdueTimer != nil && c.overdueTimer.Stop() {
		c.late.Done()
	}
	c.mu.Unlock()
	if c.ticket.trial || lived {
		c.ticket.succeed()
	}
}

// overdue stops a child that has not answered its first request in time.
func (c *instance) overdue() {
	defer c.late.Done()
	c.mu.Lock()
	if c.ready.Load() || c.closed || c.dead {
		c.mu.Unlock()
		return
	}
	limit := c.d.opt.StartTimeout
	fault := silent(c.d.opt.Name, limit, c.shown())
	c.expired = fault
	l := c.link.Load()
	c.mu.Unlock()
	c.ticket.fail("did not answer its first request within " + upstream.Duration(limit) + c.d.revealed(c.proc.StderrTail()))
	l.Fail(fault) // requests come from a link, so there is one
	c.proc.Stop()
}

// wedged replaces a child that gives no sign of life: it is killed, and the next call starts another. It was silent since the given time.
func (c *instance) wedged(calls int, since time.Time) {
	c.mu.Lock()
	if c.closed || c.dead || c.expired != nil {
		c.mu.Unlock()
		return
	}
	fault := wedged(c.d.opt.Name, calls, c.d.opt.AliveTimeout, c.shown())
	c.expired = fault
	c.stopTimers()
	l := c.link.Load()
	c.mu.Unlock()
	c.d.crashes.Add(1)
	c.judge(fmt.Sprintf("gave no sign of life within %s, after %d silent calls in a row", upstream.Duration(c.d.opt.AliveTimeout), calls), false, false)
	if c.d.opt.Replaced != nil { // there may be no call that could tell
		c.d.opt.Replaced(c.proc.PID(), fault, time.Since(since))
	}
	l.Fail(fault)
	c.proc.Kill(wedgedGrace)
}

// stopTimers stops the timers. The caller holds c.mu.
func (c *instance) stopTimers() {
	c.healthy.Stop()
	if c.overdueTimer != nil && c.overdueTimer.Stop() {
		c.late.Done()
	}
}

// close stops and reaps the child. If the child has just ended by itself, that counts as its end.
func (c *instance) close() {
	c.mu.Lock()
	first := !c.closed && !c.dead && c.expired == nil && c.proc.Exit() == nil
	c.closed, c.stopped = true, c.stopped || first
	c.stopTimers()
	mute := c.asked > 0 && !c.ready.Load()
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

// Close implements transport.Link. It stops and reaps the child.
func (l *link) Close() error {
	l.c.close()
	return nil
}

// shown returns the last lines on stderr, if errors of the calls to this child may show them; otherwise nil.
func (c *instance) shown() []string {
	if c.d.opt.Reveal == ToAll || c.d.opt.Reveal == ToOwner && c.owned {
		return c.proc.StderrTail()
	}
	return nil
}

// logged returns how the child ended for the log, which has its lines on stderr only if they are reported at all.
func (c *instance) logged(exit *process.ExitError) *process.ExitError {
	if exit == nil || c.d.reports {
		return exit
	}
	bare := *exit
	bare.StderrTail = nil
	return &bare
}

// LastWords returns the child's last lines on stderr, as the end of a sentence; empty if there are none, or if the link's
// callers may not see them.
func (l *link) LastWords() string { return words(l.c.shown()) }

// PID returns the child's process id.
func (l *link) PID() int { return l.c.proc.PID() }

const (
	// stderrBurst and stderrRate limit the reported lines of a child's stderr, in lines, and lines a second. Once the
	// limit is reached, reporting pauses for the time of stderrPause lines, so that the dropped lines are reported once a
	// second and not with every line.
	stderrBurst = 50
	stderrRate  = 10
	stderrPause = 10
)

// limiter is a token bucket, one token a line.
type limiter struct {
	mu      sync.Mutex
	tokens  float64
	at      time.Time
	dry     bool
	dropped int // since the last line that passed
}

func newLimiter(now time.Time) *limiter { return &limiter{tokens: stderrBurst, at: now} }

// take reports whether a line may pass, and if so how many lines before it were dropped.
func (l *limiter) take(now time.Time) (pass bool, dropped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokens = min(l.tokens+now.Sub(l.at).Seconds()*stderrRate, stderrBurst)
	l.at = now
	need := 1.0
	if l.dry {
		need = stderrPause
	}
	if l.tokens < need {
		l.dry = true
		l.dropped++
		return false, 0
	}
	l.tokens--
	l.dry = false
	dropped, l.dropped = l.dropped, 0
	return true, dropped
}

// rest returns how many lines were dropped since the last that passed, and resets the count.
func (l *limiter) rest() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.dropped
	l.dropped = 0
	return n
}
