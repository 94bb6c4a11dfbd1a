package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"dragoman/adapters/stdio/process"
	"dragoman/adapters/stdio/reaper"
	"dragoman/adapters/stdio/upstream"
	"dragoman/adapters/transport"
	"dragoman/proxy"
)

const (
	defaultStartTimeout = time.Minute
	noiseLine           = 4 << 10 // reported bytes of a line that is no message
	defaultAliveTimeout = 5 * time.Second
	// wedgedGrace is the time between SIGTERM and SIGKILL for a child that gives no sign of life.
	wedgedGrace = 500 * time.Millisecond
)

// Options configure how a stdio server is run. The zero value of every field but Command is usable.
type Options struct {
	// Name is the upstream's name in the configuration, for errors.
	Name    string
	Command process.Command
	// Spares is how many children are kept ready for new sessions, once Warm has been called.
	Spares int
	// StartTimeout is how long a child may take to answer its first request; 0 means 1 min. It does not apply to requests
	// that may take long, such as tools/call.
	StartTimeout time.Duration
	// CrashLimit is how many starts must fail within a minute, and be at least half of all starts, to suspend starting
	// the server for CrashPause; 0 means 5. A start fails if the child cannot be started, does not answer its first
	// request within StartTimeout, or ends by itself within 10 s.
	CrashLimit int
	CrashPause time.Duration // 0 means 30 s
	// AliveTimeout is how long a child that has been silent in several calls may take for a sign of life, after which it
	// is killed; 0 means 5 s. See mux.Watch.
	AliveTimeout time.Duration
	// Stderr, if not nil, is called with the lines that a child writes to its standard error, without Command.Secrets: 50
	// at once, then 10 a second. dropped is how many lines before this one were left out; at the child's end line may be
	// nil.
	Stderr func(pid int, line []byte, dropped int)
	// Reveal says which errors show the last of these lines.
	Reveal Reveal
	// Noise, if not nil, is called with lines on a child's standard output that are not messages: the server's first
	// five, then one a minute. skipped is how many were left out before this one.
	Noise func(pid int, line []byte, err error, skipped int)
	// Replaced, if not nil, is called when a child is killed because it gave no sign of life, with the error of its calls and the
	// time for which it had been silent. It must not block.
	Replaced func(pid int, fault error, silent time.Duration)
	// Changed, if not nil, is called when the circuit opens, half-opens or closes. It must not block.
	Changed func(Health)
}

// Reveal says whose errors show what a child has written to its standard error. Nothing tells for whom it wrote a line.
type Reveal uint8

const (
	// ToNobody shows it in no error.
	ToNobody Reveal = iota
	// ToOwner shows it to the caller that a child serves alone (transport.Owned).
	ToOwner
	// ToAll shows it in all errors: those who see them are the operator.
	ToAll
)

// Dialer makes links to one stdio server: each Dial starts a process, or takes a spare.
type Dialer struct {
	opt       Options
	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	sup       *circuit
	prewarmed prewarmed
	noises    upstream.Sampler
	goodAge   time.Duration // healthyAge; shorter in tests
	reports   bool          // Options.Stderr is set

	running                         atomic.Int64
	starts, crashes, noisy, dropped atomic.Uint64
}

// Stats counts what a Dialer has done.
type Stats struct {
	Running      int    // living children, including prewarmed ones
	Spares       int    // prewarmed children that no session uses yet
	Starts       uint64 // starts, successful or not
	FailedStarts uint64 // starts that failed (see Options.CrashLimit), and prewarmed children that died
	Crashes      uint64 // children that ended without being stopped, or were killed because they gave no sign of life
	Noise        uint64 // lines on standard output that were not messages
	Dropped      uint64 // lines on standard error that were not reported
}

// NewDialer returns a Dialer. After Warm, the caller must call Close in the end.
func NewDialer(opt Options) *Dialer {
	reports := opt.Stderr != nil
	if !reports {
		opt.Stderr = func(int, []byte, int) {}
	}
	if opt.Noise == nil {
		opt.Noise = func(int, []byte, error, int) {}
	}
	if opt.StartTimeout <= 0 {
		opt.StartTimeout = defaultStartTimeout
	}
	if opt.AliveTimeout <= 0 {
		opt.AliveTimeout = defaultAliveTimeout
	}
	if opt.CrashLimit <= 0 {
		opt.CrashLimit = defaultCrashLimit
	}
	if opt.CrashPause <= 0 {
		opt.CrashPause = defaultCrashPause
	}
	d := &Dialer{opt: opt, goodAge: healthyAge, reports: reports}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.sup = newCircuit(&d.opt, d.ctx.Done())
	return d
}

// Dial returns the transport.Dial for processes of one era. Its errors are ctx's or a *proxy.Error: the server cannot be
// started, keeps crashing (RetryAfter says when it is tried again), or the dialer is closed. The error wraps
// transport.ErrFatal if no later Dial can succeed.
func (d *Dialer) Dial(server proxy.Era) transport.Dial {
	return func(ctx context.Context, sink transport.Sink) (transport.Link, error) {
		return d.dial(ctx, server, sink)
	}
}

func (d *Dialer) dial(ctx context.Context, server proxy.Era, sink transport.Sink) (transport.Link, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !d.prewarmed.enter() {
		return nil, errClosing()
	}
	defer d.prewarmed.group.Done()
	for c := d.spare(); c != nil; c = d.spare() {
		if l := c.adopt(server, sink, transport.IsOwned(ctx)); l != nil {
			d.used()
			return d.unlessClosed(l)
		}
	}
	t, err := d.sup.begin(ctx)
	if err != nil {
		return nil, err
	}
	c, err := d.launch(ctx, t)
	if err != nil {
		return nil, err
	}
	c.owned = transport.IsOwned(ctx)
	l := c.first(server, sink)
	go c.read() // ends with the child
	return d.unlessClosed(l)
}

// unlessClosed returns a link, unless the dialer was closed meanwhile: then no owner may be left to close the link.
func (d *Dialer) unlessClosed(l *link) (transport.Link, error) {
	if d.ctx.Err() != nil {
		l.c.close()
		return nil, errClosing()
	}
	return l, nil
}

// refused settles the ticket of a start that failed, and returns the error for the caller.
func (d *Dialer) refused(ctx context.Context, t *ticket, err error) error {
	var missing *process.NotFoundError
	var start *process.StartError
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		t.drop()
		return err
	case errors.Is(err, reaper.ErrLost): // nothing is known of the server
		t.drop()
		return proxy.Errf(proxy.Unreachable, "%s could not be started: %w", upstream.Called(d.opt.Name), err)
	case errors.As(err, &missing):
		t.impossible("could not be started: " + err.Error())
	default:
		t.fail("could not be started: " + err.Error())
	}
	if missing != nil || errors.As(err, &start) && !temporary(err) {
		return fmt.Errorf("%w: %w", transport.ErrFatal, proxy.Errf(proxy.Unreachable, "%w", err))
	}
	return proxy.Errf(proxy.Unreachable, "%s could not be started: %w", upstream.Called(d.opt.Name), err)
}

// temporary reports whether the error is temporary: the system lacked a resource.
func temporary(err error) bool {
	lack := []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ETXTBSY, syscall.EINTR}
	return slices.ContainsFunc(lack, func(e error) bool { return errors.Is(err, e) })
}

// noise counts a line that is not a message, and reports some of them.
func (d *Dialer) noise(pid int, line []byte, err error) {
	d.noisy.Add(1)
	if tell, skipped := d.noises.Take(time.Now()); tell {
		d.opt.Noise(pid, []byte(d.opt.Command.Secrets.Hide(string(line[:min(len(line), noiseLine)]))), err, skipped)
	}
}

// revealed returns the last lines on stderr for a text that all callers may see: none, unless they are the operator.
func (d *Dialer) revealed(tail []string) string {
	if d.opt.Reveal == ToAll {
		return words(tail)
	}
	return ""
}

// Health returns how the server's starts go.
func (d *Dialer) Health() Health { return d.sup.health() }

// Stats returns the counts so far.
func (d *Dialer) Stats() Stats {
	d.prewarmed.mu.Lock()
	idle := len(d.prewarmed.idle)
	d.prewarmed.mu.Unlock()
	return Stats{Running: int(d.running.Load()), Spares: idle, Starts: d.starts.Load(), FailedStarts: d.sup.failed.Load(),
		Crashes: d.crashes.Load(), Noise: d.noisy.Load(), Dropped: d.dropped.Load()}
}
