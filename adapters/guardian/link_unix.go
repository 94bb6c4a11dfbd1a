//go:build unix

package guardian

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// link is one guardian process and our end of the socket. Its goroutine, serve, reads what it says and, in the end, reaps
// it.
type link struct {
	guardian *Guardian
	mark     string
	proc     *os.Process
	conn     *os.File      // our end of the socket
	places   chan struct{} // one for each start under way

	greeted chan struct{} // closed when it has said hello
	lost    chan struct{} // closed when it will say nothing more
	done    chan struct{} // closed when it has been reaped, and all behind it cleared up

	sending sync.Mutex // held while a frame is written
	closing bool       // nothing is written any more, and the guardian is about to end

	mu       sync.Mutex
	children map[uint64]*Child
	last     uint64
	over     bool
}

// Child is a child that the guardian has started, and its family: everything that descends from it.
type Child struct {
	link    *link
	id      uint64
	pid     int
	refused error         // why it was not started
	settled chan struct{} // closed when pid or refused is known, or the guardian lost
	exited  chan struct{}
	gone    chan struct{}
	exit    Exit
	began   bool // it has been started
	dropped bool // nobody waits for its start any more
}

// PID is the child's process id, which is also that of its process group.
func (c *Child) PID() int { return c.pid }

// Exited is closed when the child has exited and been reaped. Who is left of its family has been sent SIGTERM by then, or
// is about to be.
func (c *Child) Exited() <-chan struct{} { return c.exited }

// Exit tells how the child ended, once Exited is closed.
func (c *Child) Exit() Exit {
	<-c.exited
	return c.exit
}

// Gone is closed when nobody of the family is left, the child included.
func (c *Child) Gone() <-chan struct{} { return c.gone }

// Terminate sends SIGTERM to everybody of the family.
func (c *Child) Terminate() { c.ask(askTerm) }

// Kill sends SIGKILL to everybody of the family, again and again until nobody is left.
func (c *Child) Kill() { c.ask(askKill) }

func (c *Child) ask(k kind) {
	// An error means that the guardian is lost, and then the family is ended anyway.
	_ = c.link.send(head{kind: k, id: c.id}, nil, nil)
}

// start asks for a child and waits for the answer.
func (l *link) start(ctx context.Context, s Spec) (*Child, error) {
	select {
	case l.places <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	waits := true // the place is kept until there is an answer, also when nobody waits for that any more
	defer func() {
		if waits {
			<-l.places
		}
	}()
	c := &Child{link: l, settled: make(chan struct{}), exited: make(chan struct{}), gone: make(chan struct{})}
	if !l.enter(c) {
		return nil, l.lostStart()
	}
	body := appendStart(nil, &s, MarkKey+"="+l.mark+"-"+strconv.FormatUint(c.id, 10))
	if len(body) > bodyMost {
		l.leave(c)
		return nil, &os.PathError{Op: "fork/exec", Path: s.Path, Err: syscall.E2BIG}
	}
	files := []int{int(s.Stdin.Fd()), int(s.Stdout.Fd()), int(s.Stderr.Fd())} //nolint:gosec // G115: a descriptor is small
	h := head{kind: askStart, size: uint32(len(body)), id: c.id}              //nolint:gosec // G115: checked above
	if err := l.send(h, body, files); err != nil {
		l.broken()
	}
	select {
	case <-c.settled:
	case <-ctx.Done():
		l.drop(c)
		waits = false
		go func() { // ends with the answer, or the guardian
			<-c.settled
			<-l.places
		}()
		return nil, ctx.Err()
	}
	switch {
	case c.refused != nil:
		return nil, &os.PathError{Op: "fork/exec", Path: s.Path, Err: c.refused}
	case !c.began:
		return nil, l.lostStart()
	}
	return c, nil
}

// lostStart is the error of a start whose guardian has ended. One that has never said a word has started nothing.
func (l *link) lostStart() error {
	select {
	case <-l.greeted:
		return ErrLost
	default:
		return ErrUnavailable
	}
}

// send writes a frame. After an error the stream of frames may be broken, and the guardian has to go.
func (l *link) send(h head, body []byte, files []int) error {
	var b [headSize]byte
	h.encode(&b)
	var rights []byte
	if len(files) > 0 {
		rights = syscall.UnixRights(files...)
	}
	l.sending.Lock()
	defer l.sending.Unlock()
	if err := l.conn.SetWriteDeadline(time.Now().Add(sendTime)); err != nil {
		return err
	}
	if err := sendRights(l.conn, b[:], rights); err != nil {
		return err
	}
	if len(body) == 0 {
		return nil
	}
	_, err := l.conn.Write(body)
	return err
}

// sendRights writes b, and descriptors with its first byte.
func sendRights(f *os.File, b, rights []byte) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	n := 0
	var sendErr error
	err = raw.Write(func(fd uintptr) bool {
		for {
			n, sendErr = syscall.SendmsgN(int(fd), b, rights, nil, 0) //nolint:gosec // G115: a descriptor is small
			if sendErr != syscall.EINTR {
				return sendErr != syscall.EAGAIN
			}
		}
	})
	if err = errors.Join(err, sendErr); err == nil && n != len(b) {
		err = io.ErrShortWrite
	}
	return err
}

// shutWrite tells the other end that nothing more will come; what it says can still be read.
func shutWrite(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var shutErr error
	err = raw.Control(func(fd uintptr) { shutErr = syscall.Shutdown(int(fd), syscall.SHUT_WR) }) //nolint:gosec // G115: likewise
	return errors.Join(err, shutErr)
}

// broken is called when a request could not be written: what the guardian has of it cannot be taken back, and it does not
// read. One that is ending is left to that.
func (l *link) broken() {
	l.sending.Lock()
	defer l.sending.Unlock()
	if !l.closing {
		_ = l.proc.Kill() // fails only if it has ended
	}
}

func (l *link) enter(c *Child) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	l.last++
	c.id = l.last
	l.children[c.id] = c
	return true
}

func (l *link) leave(c *Child) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.children, c.id)
}

// drop has a child killed that nobody waits for any more, now or when it has been started.
func (l *link) drop(c *Child) {
	l.mu.Lock()
	c.dropped = true
	began := c.began
	l.mu.Unlock()
	if began {
		c.Kill()
	}
}

// close ends the guardian and waits for that.
func (l *link) close() {
	l.sending.Lock()
	l.closing = true
	_ = shutWrite(l.conn) // fails only if it has ended already
	l.sending.Unlock()
	t := time.AfterFunc(closeTime, func() { _ = l.proc.Kill() })
	defer t.Stop()
	<-l.done
}

// serve reads what the guardian says until it ends, and clears up behind it.
func (l *link) serve() {
	defer close(l.done)
	greeting := time.AfterFunc(greetTime, func() { _ = l.proc.Kill() })
	err := l.listen(func() { greeting.Stop() })
	greeting.Stop()
	// It has closed its end; most likely it has exited.
	patience := time.AfterFunc(time.Second, func() { _ = l.proc.Kill() })
	state, waitErr := l.proc.Wait()
	patience.Stop()
	_ = l.conn.Close() // nothing is left to be said
	why := err
	if waitErr == nil {
		why = errors.New(state.String())
	}
	greeted := false
	select {
	case <-l.greeted:
		greeted = true
	default:
	}
	l.guardian.parted(l, greeted, why)
	l.mu.Lock()
	l.over = true
	left := l.children
	l.children = nil
	l.mu.Unlock()
	var pids []int
	for _, c := range left {
		select {
		case <-c.exited:
		default:
			c.exit = Exit{Code: -1, Lost: true}
			close(c.exited)
		}
		if c.began {
			pids = append(pids, c.pid)
		} else {
			close(c.settled)
		}
	}
	clearUp(l.mark, pids)
	for _, c := range left {
		close(c.gone)
	}
}

// listen reads answers until the guardian's end of the socket is closed.
func (l *link) listen(hello func()) error {
	var r answers
	var greet sync.Once
	for {
		a, err := r.next(l.conn)
		if err != nil {
			return err
		}
		if a.kind == sayHello {
			if a.a != version {
				return errors.New("guardian: " + l.guardian.opt.Exe + " is another program, or another version of this")
			}
			hello()
			greet.Do(func() { close(l.greeted) })
			continue
		}
		l.take(a)
	}
}

// take hands an answer to the child it is about.
func (l *link) take(a answer) {
	l.mu.Lock()
	c := l.children[a.id]
	if c == nil {
		l.mu.Unlock()
		return
	}
	unwanted := false
	switch a.kind {
	case sayStarted:
		c.pid, c.began = int(a.a), true
		close(c.settled)
		unwanted = c.dropped
	case sayFailed:
		c.refused = syscall.Errno(a.a) //nolint:gosec // G115: an errno is small and positive
		close(c.settled)
		delete(l.children, a.id)
	case sayExited:
		c.exit = exitOf(syscall.WaitStatus(a.a)) //nolint:gosec // G115: the same bits
		close(c.exited)
	case sayGone:
		delete(l.children, a.id)
		close(c.gone)
	}
	l.mu.Unlock()
	if unwanted {
		// From a goroutine, lest the guardian and we wait for each other to read; it ends within sendTime.
		go c.Kill()
	}
}

// exitOf says in our words what wait(2) says.
func exitOf(ws syscall.WaitStatus) Exit {
	if ws.Signaled() {
		return Exit{Code: -1, Signal: ws.Signal()}
	}
	return Exit{Code: ws.ExitStatus()}
}
