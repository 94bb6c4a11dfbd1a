package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"dragoman/adapters/era"
	"dragoman/proxy"
)

// UpstreamOptions say how a stdio server is run.
type UpstreamOptions struct {
	Command Command
	// Stderr, if not nil, is told of every line that a child writes to its standard error.
	Stderr func(pid int, line []byte)
	// Noise, if not nil, is told of every line on a child's standard output that is no message.
	Noise func(pid int, line []byte, err error)
}

// Dialer makes links to one stdio server: each Dial starts a process.
type Dialer struct{ opt UpstreamOptions }

// NewDialer makes a dialer.
func NewDialer(opt UpstreamOptions) *Dialer {
	if opt.Stderr == nil {
		opt.Stderr = func(int, []byte) {}
	}
	if opt.Noise == nil {
		opt.Noise = func(int, []byte, error) {}
	}
	return &Dialer{opt: opt}
}

// Dial gives the era.Dial for processes of one era.
func (d *Dialer) Dial(server proxy.Era) era.Dial {
	return func(ctx context.Context, sink era.Sink) (era.Link, error) { return d.start(ctx, server, sink) }
}

// process is a child as an era.Link.
type process struct {
	*era.Mux
	child  *Process
	sink   era.Sink
	opt    *UpstreamOptions
	reader chan struct{} // closed when the reader has ended

	mu     sync.Mutex
	closed bool
}

func (d *Dialer) start(ctx context.Context, server proxy.Era, sink era.Sink) (era.Link, error) {
	cmd := d.opt.Command
	p := &process{sink: sink, opt: &d.opt, reader: make(chan struct{})}
	pid := make(chan int, 1)
	cmd.Stderr = p.stderr(pid)
	child, err := Start(ctx, cmd)
	if err != nil {
		var missing *NotFoundError
		var refused *StartError
		if errors.As(err, &missing) || errors.As(err, &refused) {
			return nil, fmt.Errorf("%w: %w", era.ErrFatal, proxy.Errf(proxy.Unreachable, "%w", err))
		}
		return nil, proxy.Errf(proxy.Unreachable, "the upstream server could not be started: %w", err)
	}
	pid <- child.PID()
	p.child = child
	p.Mux = era.NewMux(server, p.write, sink)
	go p.read()
	return p, nil
}

// stderr names the child in what it says; what it says before its number is known waits for it.
func (p *process) stderr(pid <-chan int) func([]byte) {
	var once sync.Once
	n := 0
	return func(line []byte) {
		once.Do(func() { n = <-pid })
		p.opt.Stderr(n, line)
	}
}

func (p *process) write(ctx context.Context, line []byte) error {
	if err := p.child.WriteContext(ctx, line); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return proxy.Errf(proxy.Lost, "the upstream server does not take requests: %w", err)
	}
	return nil
}

// read hands lines to the mux until the child closes its output; then the child is stopped, and whoever waits is told.
func (p *process) read() {
	defer close(p.reader)
	for {
		line, err := p.child.ReadLine()
		var long *LineTooLongError
		switch {
		case errors.As(err, &long):
			p.opt.Noise(p.child.PID(), long.Prefix, err)
			p.Unreadable(long.Prefix, proxy.Errf(proxy.ResponseTooLarge,
				"the upstream server's answer is a line longer than limits.line, %d bytes", long.Limit))
			continue
		case err != nil:
			p.lost(err)
			return
		}
		if err := p.Deliver(line); err != nil {
			p.opt.Noise(p.child.PID(), line, err)
		}
	}
}

// exitTime bounds how long those who wait are kept waiting for the reason of a child's end.
const exitTime = 100 * time.Millisecond

// lost tells whoever waits first, and stops the child then: it may have closed its output and live on.
func (p *process) lost(err error) {
	select {
	case <-p.child.Done():
	case <-time.After(exitTime):
	}
	if exit := p.child.Exit(); exit != nil {
		err = exit
	} else if errors.Is(err, io.EOF) {
		err = errors.New("stdio: the server closed its output")
	}
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	p.Fail(proxy.Errf(proxy.Lost, "the upstream server has ended: %w", err))
	if !closed {
		p.sink.Lost(err)
	}
	p.child.Stop()
}

// Close implements era.Link: the child is stopped and reaped.
func (p *process) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.child.Stop()
	<-p.reader
	return nil
}
