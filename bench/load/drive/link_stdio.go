package drive

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	"dragoman/adapters/stdio/lines"
	"dragoman/adapters/stdio/process"
)

// child is a server over stdio. Its links call it concurrently and find their answers by the id.
type child struct {
	plan   *Plan
	driver *driver

	starting sync.Mutex

	mu      sync.Mutex
	process *process.Process
	read    chan struct{} // closed when reading has ended
	gone    error         // why it cannot be called; nil while it can
	waiting map[uint64]*lineLink
}

// lineLink is a client of a child.
type lineLink struct {
	child    *child
	requests []request
	answer   []byte
	answers  chan error // nil when answer is complete, else why there is none
	timer    *time.Timer
	hurried  chan struct{}
	once     sync.Once
}

// stopGrace is the time that a child has after the end of its input, and again after SIGTERM.
const stopGrace = 2 * time.Second

// start starts the child unless it runs.
func (c *child) start(ctx context.Context) error {
	c.starting.Lock()
	defer c.starting.Unlock()
	c.mu.Lock()
	running, read, gone := c.process, c.read, c.gone
	c.mu.Unlock()
	switch {
	case running != nil && gone == nil:
		return nil
	case running != nil:
		running.Stop()
		<-read
	}
	started, err := process.Start(ctx, process.Command{Argv: c.plan.Command, Env: c.plan.Env, MaxLine: MaxMessage, StopGrace: stopGrace, KillGrace: stopGrace})
	if err != nil {
		return &fault{kindHandshake, err.Error()}
	}
	read = make(chan struct{})
	c.mu.Lock()
	c.process, c.gone, c.read, c.waiting = started, nil, read, make(map[uint64]*lineLink)
	c.mu.Unlock()
	go c.listen(started, read)
	if c.plan.Face.modern() {
		return nil
	}
	if err = c.handshake(started); err != nil {
		c.mu.Lock()
		c.gone = err
		c.mu.Unlock()
	}
	return err
}

func (c *child) handshake(process *process.Process) error {
	hello := newLineLink(c, []request{newRequest("", initializeBody(c.plan.Revision))})
	defer hello.close()
	answer, _, err := hello.do(0, []byte(initializeID), time.Now().Add(3*c.plan.Timeout)) // it may still be starting
	if err == nil {
		_, err = agreed(answer)
	}
	if err == nil {
		err = process.Write([]byte(initializedBody))
	}
	return err
}

// PID is the child's process id; 0: it does not run.
func (c *child) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil || c.gone != nil {
		return 0
	}
	return c.process.PID()
}

func (c *child) stop() {
	c.mu.Lock()
	process, read := c.process, c.read
	c.mu.Unlock()
	if process != nil {
		process.Stop()
		<-read
	}
}

// listen delivers answers until the child's output ends.
func (c *child) listen(process *process.Process, done chan struct{}) {
	defer close(done)
	for {
		line, err := process.ReadLine()
		var long *lines.LineTooLongError
		switch {
		case errors.As(err, &long):
			continue // its call times out
		case err != nil:
			c.lost(process, err)
			return
		}
		c.deliver(line)
	}
}

func (c *child) deliver(line []byte) {
	id, response := idOf(line)
	if !response {
		return
	}
	n, err := strconv.ParseUint(string(id), 10, 64)
	c.mu.Lock()
	l := c.waiting[n]
	delete(c.waiting, n)
	c.mu.Unlock()
	if err != nil || l == nil {
		c.driver.stray(line)
		return
	}
	l.answer = append(l.answer[:0], line...)
	l.answers <- nil
}

// lost ends all waiting calls with an error.
func (c *child) lost(process *process.Process, err error) {
	if exit := process.Exit(); exit != nil {
		err = exit
	} else if err == io.EOF {
		err = errors.New("the command has closed its output")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = &fault{kindConnection, err.Error()}
	for n, l := range c.waiting {
		delete(c.waiting, n)
		l.answers <- c.gone
	}
}

func newLineLink(c *child, requests []request) *lineLink {
	l := &lineLink{child: c, requests: requests, answers: make(chan error, 1), hurried: make(chan struct{}), timer: time.NewTimer(time.Hour)}
	l.timer.Stop()
	return l
}

// open implements link.
func (l *lineLink) open(ctx context.Context) error { return l.child.start(ctx) }

// mend implements link.
func (l *lineLink) mend(ctx context.Context, _ error) error { return l.child.start(ctx) }

// do implements link.
func (l *lineLink) do(call int, digits []byte, deadline time.Time) ([]byte, int, error) {
	r := &l.requests[call]
	r.number(digits)
	n, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil {
		return nil, 0, err
	}
	c := l.child
	c.mu.Lock()
	process := c.process
	if err = c.gone; err == nil && process == nil {
		err = faultf(kindConnection, "the command does not run")
	}
	if err == nil {
		c.waiting[n] = l
	}
	c.mu.Unlock()
	if err != nil {
		return nil, 0, err
	}
	l.timer.Reset(time.Until(deadline))
	if err = process.Write(r.raw); err != nil {
		if !l.withdraw(n) {
			return nil, 0, faultf(kindConnection, "%v", err)
		}
		err = <-l.answers
		return nil, 0, faultf(kindConnection, "%v", err)
	}
	select {
	case err = <-l.answers:
	case <-l.hurried:
		err = l.late(n)
	case <-l.timer.C:
		err = l.late(n)
	}
	if err != nil {
		return nil, 0, err
	}
	return l.answer, statusOK, nil
}

// withdraw ends the wait for an answer, and reports whether the answer is being delivered already.
func (l *lineLink) withdraw(n uint64) (coming bool) {
	l.child.mu.Lock()
	defer l.child.mu.Unlock()
	_, waits := l.child.waiting[n]
	delete(l.child.waiting, n)
	return !waits
}

// late returns the error of a call whose timeout has passed, unless its answer is being delivered.
func (l *lineLink) late(n uint64) error {
	if l.withdraw(n) {
		return <-l.answers
	}
	return &fault{kindTimeout, "no answer before the timeout"}
}

// hurry implements link. It ends calls at once: there is no connection with a deadline.
func (l *lineLink) hurry(time.Time) {
	l.once.Do(func() { close(l.hurried) })
}

// close implements link. The driver stops the child.
func (l *lineLink) close() { l.timer.Stop() }
