//go:build unix

package reaper

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// readyTime is how long a new reaper process may take to report that it is ready. It is generous for busy machines.
	readyTime = 10 * time.Second
	// closeTime is how long a reaper process may take to end; it limits itself to less (termGrace and killLimit).
	closeTime = 3 * time.Second
	// keepTime is how long its keeper may take after it, to end what it has left: half a second, but for many processes on a busy
	// machine. Nobody waits for it but Close.
	keepTime = 10 * time.Second
	// sendTime is how long a request may wait for the reaper process to read it.
	sendTime = 10 * time.Second
	// retryAfter is the pause after a reaper process that could not be started.
	retryAfter = time.Minute
)

// impl is the state of a Reaper on Unix.
type impl struct {
	mu     sync.Mutex
	conn   *connection   // to the reaper process; nil if there is none
	old    []*connection // to those whose keeper has ended, and whose children have not
	retry  time.Time     // no new attempt before
	noted  bool          // Note was called because no reaper could be started
	closed bool

	serving  sync.WaitGroup // one for each connection; only added to under mu while closed is false
	starting sync.WaitGroup // Prestart's goroutines
}

// Prestart starts the reaper process in the background unless it runs already, so that the first Start need not wait for it. It
// reports no error; Start does. Close waits for the goroutine.
func (r *Reaper) Prestart() { r.impl.starting.Go(func() { _, _ = r.connect() }) }

// Start starts a child through the reaper process and returns once the child executes its program. The error is ErrUnavailable,
// ErrClosed, ErrLost, the error of ctx, or an *os.PathError as from os.StartProcess. If ctx ends first, the child is killed as
// soon as it is there.
func (r *Reaper) Start(ctx context.Context, s Spec) (*Child, error) {
	c, err := r.connect()
	if err != nil {
		return nil, err
	}
	return c.start(ctx, s)
}

// Close ends the reaper process and everything that still runs below it, and waits for that: a moment if all children are gone,
// less than 2 s mostly, and closeTime and keepTime at most.
func (r *Reaper) Close() {
	m := &r.impl
	m.mu.Lock()
	m.closed = true
	all := m.old
	if m.conn != nil {
		all = append(all, m.conn)
	}
	m.mu.Unlock()
	for _, c := range all {
		defer c.hangUp().Stop()
	}
	m.serving.Wait()
	m.starting.Wait() // those that come later start nothing
}

// connect returns the connection to the running reaper process, or to a new one.
func (r *Reaper) connect() (*connection, error) {
	m := &r.impl
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, ErrClosed
	case m.conn != nil:
		return m.conn, nil
	case time.Now().Before(m.retry):
		return nil, ErrUnavailable
	}
	c, err := r.launch()
	if err != nil {
		r.unavailable(err)
		return nil, ErrUnavailable
	}
	m.conn = c
	return c, nil
}

// unavailable records that no reaper process could be started, and notes it unless that is known. The caller holds mu.
func (r *Reaper) unavailable(cause error) {
	m := &r.impl
	if !m.noted {
		r.opt.Note(fmt.Errorf("%w, children are started without one: %w", ErrUnavailable, cause))
	}
	m.retry, m.noted = time.Now().Add(retryAfter), true
}

// unkept leaves a reaper process whose keeper has ended to the children that it has. The next child gets a new one.
func (r *Reaper) unkept(c *connection) {
	m := &r.impl
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.conn != c {
		return
	}
	c.unkept.Store(true)
	m.conn, m.old = nil, append(m.old, c)
	r.opt.Note(ErrUnkept)
}

// lost forgets a reaper process that has ended. cause is why one has ended that never was ready.
func (r *Reaper) lost(c *connection, cause error) {
	m := &r.impl
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.old = slices.DeleteFunc(m.old, func(o *connection) bool { return o == c })
	if m.conn != c { // its end was our wish
		return
	}
	m.conn = nil
	if !c.ready.Load() {
		r.unavailable(cause)
		return
	}
	m.noted = false
	r.opt.Note(fmt.Errorf("%w, and its children with it; the next child gets a new one", ErrLost))
}

// ahead has what Prelaunch has spawned, nil if that failed, and is closed then. It is nil if Prelaunch was not called.
var ahead chan *connection

// Prelaunch starts a reaper process before there is a Reaper, so that its initialization overlaps with the program's. The first
// Reaper that needs a process takes it. If none does, it ends with the program. Prelaunch is called once, before any other use of
// the package.
func Prelaunch() {
	ahead = make(chan *connection, 1)
	go func() { // ends at once
		defer close(ahead)
		if c, err := spawn(new(Options)); err == nil {
			ahead <- c
		}
	}()
}

// launch starts a reaper process, which ends when the connection to it is closed, also by our death. The caller holds mu.
func (r *Reaper) launch() (c *connection, err error) {
	if ahead != nil {
		c = <-ahead
	}
	if c == nil {
		if c, err = spawn(&r.opt); err != nil {
			return nil, err
		}
	}
	c.reaper = r
	r.impl.serving.Go(c.serve)
	return c, nil
}

// spawn starts a reaper process whose connection is not served yet.
func spawn(opt *Options) (*connection, error) {
	exe, err := opt.exe()
	if err != nil {
		return nil, err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	mark := hex.EncodeToString(random)
	args, env := command()
	cmd := &exec.Cmd{Path: exe, Args: args, Env: append(environment(mark), env...), ExtraFiles: []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	if err := cmd.Start(); err != nil {
		_ = ours.Close()
		return nil, err
	}
	return &connection{mark: mark, cmd: cmd, socket: ours, children: map[uint64]*Child{}, slots: make(chan struct{}, maxStarts)}, nil
}

// exe returns the program to run, or an error if it would not become a reaper.
func (o *Options) exe() (string, error) {
	switch {
	case os.Getenv(markKey) != "":
		return "", errors.New("reaper: this process was started as a reaper and does not call reaper.Main")
	case o.Exe != "":
		return o.Exe, nil
	case flag.Lookup("test.v") != nil:
		return "", errors.New("reaper: a test binary has to be named in Options.Exe")
	case runtime.GOOS == "linux":
		return "/proc/self/exe", nil // stays right after the file was replaced
	}
	return os.Executable()
}

// environment is that of a reaper process.
func environment(mark string) []string {
	env := []string{
		markKey + "=" + mark,
		// Each fork that a slow file system holds up keeps a processor of the runtime.
		"GOMAXPROCS=" + strconv.Itoa(forkers+2),
		"GOGC=off", // see server.collect
	}
	// MarkKey is set if we are a child of another Dragoman: its reaper has to find ours too. The others are for debugging.
	for _, key := range []string{MarkKey, "GODEBUG", "GORACE"} {
		if value, ok := os.LookupEnv(key); ok {
			env = append(env, key+"="+value)
		}
	}
	return env
}

// socketPair returns the two ends of the socket, neither of which a child inherits by itself.
func socketPair() (ours *net.UnixConn, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "reaper")
	if ours, err = socketOf(fds[0]); err != nil {
		_ = theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}
