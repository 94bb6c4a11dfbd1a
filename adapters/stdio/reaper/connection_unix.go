//go:build unix

package reaper

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// connection is one reaper process and our end of the socket to it. Its goroutine, serve, reads events and finally reaps the
// process.
type connection struct {
	reaper *Reaper
	mark   string                     // this reaper's part of the marks
	cmd    *exec.Cmd                  // on Linux its keeper, which has started it
	self   atomic.Pointer[os.Process] // set once it is ready
	socket *net.UnixConn
	slots  chan struct{} // one for each start in progress
	ready  atomic.Bool   // the process has reported that it is ready
	lastID atomic.Uint64

	sending sync.Mutex  // held while a frame is written
	closing bool        // nothing more is written; the process is about to end
	unkept  atomic.Bool // its keeper has ended

	mu       sync.Mutex
	children map[uint64]*Child // nil once the process has ended
}

// Child is a child that the reaper has started, with its process tree: everything that descends from it.
type Child struct {
	conn    *connection
	id      uint64
	pid     int           // 0 if it was not started
	refused error         // why it was not started; nil if the reaper is lost
	settled chan struct{} // closed when pid or refused is known, or the reaper is lost
	exited  chan struct{}
	gone    chan struct{}
	exit    Exit
	dropped bool // the caller of Start has given up
}

// PID is the child's process id, which is also that of its process group.
func (c *Child) PID() int { return c.pid }

// Exited is closed when the child has exited and been reaped. The rest of its process tree has been sent SIGTERM by then, or is
// about to be.
func (c *Child) Exited() <-chan struct{} { return c.exited }

// Exit waits for Exited and tells how the child ended.
func (c *Child) Exit() Exit {
	<-c.exited
	return c.exit
}

// Gone is closed when the process tree is empty, the child included.
func (c *Child) Gone() <-chan struct{} { return c.gone }

// Terminate sends SIGTERM to the process tree.
func (c *Child) Terminate() { c.request(reqTerminate) }

// Kill sends SIGKILL to the process tree until it is empty.
func (c *Child) Kill() { c.request(reqKill) }

func (c *Child) request(k kind) {
	// An error means that the reaper is lost, which ends the process tree as well.
	_ = c.conn.send(frame{kind: k, id: c.id}, nil, nil)
}

// start requests a child and waits for the outcome.
func (c *connection) start(ctx context.Context, s Spec) (*Child, error) {
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	release := func() { <-c.slots }
	child := &Child{conn: c, id: c.lastID.Add(1), settled: make(chan struct{}), exited: make(chan struct{}), gone: make(chan struct{})}
	mark := MarkKey + "=" + c.mark + "-" + strconv.FormatUint(child.id, 10)
	body, err := encodeStart(s.Path, s.Dir, s.Argv, append(slices.Clip(s.Env), mark))
	if err != nil {
		release()
		return nil, &os.PathError{Op: "fork/exec", Path: s.Path, Err: err}
	}
	if !c.add(child) {
		release()
		return nil, c.lostStart()
	}
	rights := unix.UnixRights(int(s.Stdin.Fd()), int(s.Stdout.Fd()), int(s.Stderr.Fd()))
	f := frame{kind: reqStart, value: int32(len(body)), id: child.id} //nolint:gosec // G115: maxBody at most
	if err := c.send(f, body, rights); err != nil {
		c.broken()
	}
	select {
	case <-child.settled:
		release()
	case <-ctx.Done():
		c.drop(child)
		go func() { // ends with the outcome, or the reaper; the slot is taken until then
			<-child.settled
			release()
		}()
		return nil, ctx.Err()
	}
	switch {
	case child.refused != nil:
		return nil, &os.PathError{Op: "fork/exec", Path: s.Path, Err: child.refused}
	case child.pid == 0:
		return nil, c.lostStart()
	}
	return child, nil
}

// lostStart is the error of a start whose reaper has ended. A reaper that never was ready has started nothing.
func (c *connection) lostStart() error {
	if c.ready.Load() {
		return ErrLost
	}
	return ErrUnavailable
}

// send writes a frame, with descriptors if rights is not empty. After an error the stream of frames may be broken, and the
// reaper process has to be ended.
func (c *connection) send(f frame, body, rights []byte) error {
	b := f.encode()
	c.sending.Lock()
	defer c.sending.Unlock()
	if err := c.socket.SetWriteDeadline(time.Now().Add(sendTime)); err != nil {
		return err
	}
	if n, _, err := c.socket.WriteMsgUnix(b, rights, nil); err != nil || n != len(b) {
		return errors.Join(err, io.ErrShortWrite)
	}
	if len(body) == 0 {
		return nil
	}
	_, err := c.socket.Write(body)
	return err
}

// broken kills the reaper process after a failed send: what it has read of the request cannot be taken back, and it does not read
// on. A process that is ending anyway is left alone.
func (c *connection) broken() {
	c.sending.Lock()
	defer c.sending.Unlock()
	if !c.closing {
		c.kill()
	}
}

// kill ends the reaper process itself, so that its keeper ends its children. One that is not ready has none, and ends with the
// socket. An error means that the process has ended.
func (c *connection) kill() {
	if self := c.self.Load(); self != nil {
		_ = self.Kill()
		return
	}
	_ = c.cmd.Process.Kill()
	_ = c.socket.Close()
}

// add registers a child; false if the reaper process has ended.
func (c *connection) add(child *Child) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.children == nil {
		return false
	}
	c.children[child.id] = child
	return true
}

// drop kills a child whose Start has given up, now or as soon as it is started.
func (c *connection) drop(child *Child) {
	c.mu.Lock()
	child.dropped = true
	started := child.pid != 0
	c.mu.Unlock()
	if started {
		child.Kill()
	}
}

// hangUp makes the reaper process end everything below it and then itself. The timer kills it if it has not ended by then.
func (c *connection) hangUp() *time.Timer {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.closing = true
	_ = c.socket.CloseWrite() // fails only if the process has ended
	return time.AfterFunc(closeTime, c.kill)
}

// retire ends a reaper process without a keeper once it has no children.
func (c *connection) retire() {
	c.mu.Lock()
	used := len(c.children) > 0
	c.mu.Unlock()
	if !used && c.unkept.Load() {
		c.hangUp() // if the process does not end by itself, it is killed
	}
}

// serve reads events until the reaper process ends, and clears up after it.
func (c *connection) serve() {
	late := time.AfterFunc(readyTime, c.kill)
	cause := c.readEvents(late)
	late.Stop()
	_ = c.socket.Close()
	ready := c.ready.Load()
	var rest map[uint64]*Child
	var pids []int
	if ready { // nobody needs to wait for the keeper
		c.reaper.lost(c, nil)
		rest, pids = c.takeRest()
	}
	// The process has closed its end and most likely exited.
	exit := time.AfterFunc(keepTime, func() {
		c.kill()
		_ = c.cmd.Process.Kill()
	})
	_ = c.cmd.Process.Signal(unix.SIGCONT) // should somebody have stopped the keeper
	_ = c.cmd.Wait()                       // reports what ProcessState says
	exit.Stop()
	if state := c.cmd.ProcessState; state != nil {
		cause = errors.New(state.String())
	}
	if !ready {
		c.reaper.lost(c, cause)
		rest, pids = c.takeRest()
	}
	clearUp(c.mark, pids) // should the keeper have been killed as well
	for _, child := range rest {
		close(child.gone)
	}
}

// takeRest tells the children of a reaper process that has ended that they are lost. It returns them and their process ids.
func (c *connection) takeRest() (rest map[uint64]*Child, pids []int) {
	c.mu.Lock()
	rest = c.children
	c.children = nil
	c.mu.Unlock()
	for _, child := range rest {
		select {
		case <-child.exited:
		default:
			child.exit = Exit{Code: -1, Lost: true}
			close(child.exited)
		}
		if child.pid != 0 {
			pids = append(pids, child.pid)
		} else {
			close(child.settled)
		}
	}
	return rest, pids
}

// readEvents reads events until the reaper process closes its end of the socket. It stops late once the process is ready.
func (c *connection) readEvents(late *time.Timer) error {
	from := bufio.NewReaderSize(c.socket, 64*frameSize)
	b := make([]byte, frameSize)
	for {
		if _, err := io.ReadFull(from, b); err != nil {
			return err
		}
		e := decodeFrame(b)
		switch e.kind {
		case evReady:
		case evUnkept:
			c.reaper.unkept(c)
			c.retire()
			continue
		default:
			c.handle(e)
			c.retire()
			continue
		}
		if e.value != version {
			return errors.New("reaper: " + c.cmd.Path + " is another program, or another version of this one")
		}
		if self, err := os.FindProcess(int(e.id)); err == nil { //nolint:gosec // G115: a process id is small
			c.self.Store(self)
		}
		if late.Stop() {
			c.ready.Store(true)
		}
	}
}

// handle passes an event on to its child.
func (c *connection) handle(e frame) {
	c.mu.Lock()
	child := c.children[e.id]
	if child == nil {
		c.mu.Unlock()
		return
	}
	unwanted := false
	switch e.kind {
	case evStarted:
		child.pid = int(e.value)
		close(child.settled)
		unwanted = child.dropped
	case evFailed:
		child.refused = syscall.Errno(e.value) //nolint:gosec // G115: an errno is small and positive
		close(child.settled)
		delete(c.children, e.id)
	case evExited:
		child.exit = exitOf(syscall.WaitStatus(e.value)) //nolint:gosec // G115: the same bits
		close(child.exited)
	case evGone:
		delete(c.children, e.id)
		close(child.gone)
	}
	c.mu.Unlock()
	if unwanted {
		// In a goroutine, because the reaper may be waiting for us to read; it ends within sendTime.
		go child.Kill()
	}
}

func exitOf(ws syscall.WaitStatus) Exit {
	if ws.Signaled() {
		return Exit{Code: -1, Signal: ws.Signal()}
	}
	return Exit{Code: ws.ExitStatus()}
}
