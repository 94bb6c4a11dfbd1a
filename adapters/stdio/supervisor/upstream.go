package supervisor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"dragoman/adapters/stdio/process"
	"dragoman/adapters/stdio/upstream"
	"dragoman/adapters/transport"
	"dragoman/proxy"
)

const defaultStartTimeout = time.Minute

// UpstreamOptions say how a stdio server is run. The zero value of every member but Command is usable.
type UpstreamOptions struct {
	// Name is the upstream's name in the configuration, for errors.
	Name    string
	Command process.Command
	// Spares is how many children are kept started for sessions to come, once Warm has been called.
	Spares int
	// StartTimeout is how long a child may take to answer its first request; 0 means 1 min. The time of a request that may
	// well take long, such as tools/call, does not count.
	StartTimeout time.Duration
	// CrashLimit is how many starts have to fail within a minute, and half of all starts at least, for the server not to be
	// started for CrashPause; 0 means 5. A start fails if the child cannot be started, does not answer its first request
	// within StartTimeout, or ends within 10 s without having been stopped.
	CrashLimit int
	CrashPause time.Duration // 0 means 30 s
	// Stderr, if not nil, is told of what a child writes to its standard error: 50 lines, and 10 a second after that.
	// dropped is how many lines before this one were left out; at the child's end line may be nil.
	Stderr func(pid int, line []byte, dropped int)
	// Noise, if not nil, is told of lines on a child's standard output that are no message: of the server's first five and
	// then of one a minute. skipped is how many were left out before.
	Noise func(pid int, line []byte, err error, skipped int)
	// Changed, if not nil, is told when the circuit opens, is tried again, or closes. It must not wait.
	Changed func(Health)
}

// Dialer makes links to one stdio server: each Dial starts a process, or takes one that was started before.
type Dialer struct {
	opt    UpstreamOptions
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	sup    *circuit
	spares spares
	noises upstream.Sampler
	grown  time.Duration // healthyAge; tests have less time

	running                         atomic.Int64
	starts, crashes, noisy, dropped atomic.Uint64
}

// Stats are what a Dialer has done.
type Stats struct {
	Running      int    // children that live, spares among them
	Spares       int    // children to which nothing was said yet
	Starts       uint64 // children started, or tried to
	FailedStarts uint64 // of these, those that failed: see UpstreamOptions.CrashLimit; and spares that died
	Crashes      uint64 // children that ended without having been stopped
	Noise        uint64 // lines on standard output that were no message
	Dropped      uint64 // lines on standard error that were not told
}

// NewDialer makes a dialer. Whoever has called Warm must call Close in the end.
func NewDialer(opt UpstreamOptions) *Dialer {
	if opt.Stderr == nil {
		opt.Stderr = func(int, []byte, int) {}
	}
	if opt.Noise == nil {
		opt.Noise = func(int, []byte, error, int) {}
	}
	if opt.StartTimeout <= 0 {
		opt.StartTimeout = defaultStartTimeout
	}
	if opt.CrashLimit <= 0 {
		opt.CrashLimit = defaultCrashLimit
	}
	if opt.CrashPause <= 0 {
		opt.CrashPause = defaultCrashPause
	}
	d := &Dialer{opt: opt, grown: healthyAge}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.sup = newCircuit(&d.opt, d.ctx.Done())
	return d
}

// Dial gives the transport.Dial for processes of one era. Its errors are *proxy.Error, within transport.ErrFatal if no later Dial can
// do better: the server cannot be started, keeps crashing (RetryAfter says when it is tried again), or the dialer is
// closed; or ctx's.
func (d *Dialer) Dial(server proxy.Era) transport.Dial {
	return func(ctx context.Context, sink transport.Sink) (transport.Link, error) {
		return d.dial(ctx, server, sink)
	}
}

func (d *Dialer) dial(ctx context.Context, server proxy.Era, sink transport.Sink) (transport.Link, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !d.spares.enter() {
		return nil, errClosing()
	}
	defer d.spares.group.Done()
	for c := d.spare(); c != nil; c = d.spare() {
		if l := c.adopt(server, sink); l != nil {
			d.used()
			return d.given(l)
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
	l := c.first(server, sink)
	go c.read() // ends with the child
	return d.given(l)
}

// given answers a link, unless the dialer was closed meanwhile: nobody may be left to close it.
func (d *Dialer) given(l *link) (transport.Link, error) {
	if d.ctx.Err() != nil {
		l.c.close()
		return nil, errClosing()
	}
	return l, nil
}

// refused settles the ticket of a start that gave no child, and explains why.
func (d *Dialer) refused(ctx context.Context, t *ticket, err error) error {
	var missing *process.NotFoundError
	var start *process.StartError
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		t.drop()
		return err
	case errors.As(err, &missing):
		t.impossible("could not be started: " + err.Error())
		return fmt.Errorf("%w: %w", transport.ErrFatal, proxy.Errf(proxy.Unreachable, "%w", err))
	}
	t.fail("could not be started: " + err.Error())
	if errors.As(err, &start) && !passing(err) {
		return fmt.Errorf("%w: %w", transport.ErrFatal, proxy.Errf(proxy.Unreachable, "%w", err))
	}
	return proxy.Errf(proxy.Unreachable, "%s could not be started: %w", upstream.Called(d.opt.Name), err)
}

// passing tells whether the system may well start the same command later: it lacked something just now.
func passing(err error) bool {
	for _, no := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ETXTBSY, syscall.EINTR} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

// noise counts a line that is no message, and tells of some.
func (d *Dialer) noise(pid int, line []byte, err error) {
	d.noisy.Add(1)
	if tell, skipped := d.noises.Take(time.Now()); tell {
		d.opt.Noise(pid, line, err, skipped)
	}
}

// Health tells how the server's starts go.
func (d *Dialer) Health() Health { return d.sup.health() }

// Stats tells what the dialer has done so far.
func (d *Dialer) Stats() Stats {
	d.spares.mu.Lock()
	idle := len(d.spares.idle)
	d.spares.mu.Unlock()
	return Stats{Running: int(d.running.Load()), Spares: idle, Starts: d.starts.Load(), FailedStarts: d.sup.failed.Load(),
		Crashes: d.crashes.Load(), Noise: d.noisy.Load(), Dropped: d.dropped.Load()}
}
