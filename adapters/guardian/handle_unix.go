//go:build unix

package guardian

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	// greetTime is how long a new guardian may take until it says so. It is generous: a machine may be busy.
	greetTime = 10 * time.Second
	// closeTime is how long a guardian may take to end; it gives itself less (see termGrace and killLimit).
	closeTime = 5 * time.Second
	// sendTime is how long a request may wait for the guardian to read. One that does not is stopped, or worse.
	sendTime = 10 * time.Second
	// retryAfter is how long we do without after a guardian that could not be started.
	retryAfter = time.Minute
	// startsMost bounds the starts under way: each has three descriptors in the guardian.
	startsMost = 64
)

// impl is what a Guardian is on Unix.
type impl struct {
	mu     sync.Mutex
	link   *link     // the guardian process, nil if there is none
	retry  time.Time // no attempt before
	noted  bool      // Note has been told that none can be started
	closed bool
	ending []chan struct{} // of processes that were lost and are not cleared up yet
	early  sync.WaitGroup  // those who start a process for nobody yet
}

// Prestart starts the guardian process unless it runs, so that the first Start need not wait for it. It returns at once and
// reports nothing: Start will find out. Close waits for the goroutine.
func (g *Guardian) Prestart() { g.impl.early.Go(func() { _, _ = g.join() }) }

// Start starts a child through the guardian and returns when it has been executed. The error is ErrUnavailable, ErrClosed,
// ErrLost, ctx's, or an *os.PathError with what the system said, as os.StartProcess gives it. If ctx ends first, the child
// is killed as soon as it is there.
func (g *Guardian) Start(ctx context.Context, s Spec) (*Child, error) {
	l, err := g.join()
	if err != nil {
		return nil, err
	}
	return l.start(ctx, s)
}

// Close ends the guardian process, and whatever still runs below it, and waits for that. It takes a moment if all children
// are gone, and less than 5 s in any case.
func (g *Guardian) Close() {
	m := &g.impl
	defer m.early.Wait() // if it comes after us it starts none
	m.mu.Lock()
	m.closed = true
	l, ending := m.link, m.ending
	m.mu.Unlock()
	if l != nil {
		l.close()
	}
	for _, done := range ending {
		<-done
	}
}

// join returns the guardian that runs, or a new one.
func (g *Guardian) join() (*link, error) {
	m := &g.impl
	var first bool
	var err error
	defer func() {
		if first {
			g.opt.Note(&because{ErrUnavailable, "children are started without", err})
		}
	}()
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, ErrClosed
	case m.link != nil:
		return m.link, nil
	case time.Now().Before(m.retry):
		return nil, ErrUnavailable
	}
	var l *link
	if l, err = launch(g); err != nil {
		first = m.lacking()
		return nil, ErrUnavailable
	}
	m.link = l
	return l, nil
}

// lacking says that no guardian could be started, and whether that is news. mu is held.
func (m *impl) lacking() (first bool) {
	first = !m.noted
	m.retry, m.noted = time.Now().Add(retryAfter), true
	return first
}

// parted takes a guardian that has ended out of use. greeted says whether it had ever spoken.
func (g *Guardian) parted(l *link, greeted bool, why error) {
	m := &g.impl
	m.mu.Lock()
	closed, first := m.closed, false
	if !closed {
		m.link = nil
		m.ending = append(m.ending, l.done)
		if len(m.ending) > 8 { // those of long ago are over
			m.ending = m.ending[1:]
		}
		if greeted {
			m.noted = false
		} else {
			first = m.lacking()
		}
	}
	m.mu.Unlock()
	switch {
	case first:
		g.opt.Note(&because{ErrUnavailable, "children are started without", why})
	case greeted && !closed:
		g.opt.Note(&because{ErrLost, "and its children with it; the next child gets a new one", why})
	}
}

// command is what to execute, refused where it would not become a guardian.
func (o *Options) command() (string, error) {
	if os.Getenv(callKey) != "" {
		return "", errors.New("guardian: this is one that does not know it: the program does not import this package")
	}
	if o.Exe != "" {
		return o.Exe, nil
	}
	if tested() {
		return "", errors.New("guardian: a test binary has to be named in Exe")
	}
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil // right also after our file has been replaced
	}
	return os.Executable()
}

// tested tells whether we are a test binary, by its name and what go test tells it: the flags that it has are not ours to ask, see init.
func tested() bool {
	for i, arg := range os.Args {
		if len(arg) > 6 && arg[:6] == "-test." || i == 0 && len(arg) > 5 && arg[len(arg)-5:] == ".test" {
			return true
		}
	}
	return false
}

// because is what has happened, what it means, and why.
type because struct {
	what  error
	means string
	why   error
}

func (b *because) Error() string   { return b.what.Error() + ", " + b.means + ": " + b.why.Error() }
func (b *because) Unwrap() []error { return []error{b.what, b.why} }

// secret is the part of the marks that only one guardian uses.
func secret() (string, error) {
	f, err := os.Open("/dev/urandom")
	if err != nil {
		return "", err
	}
	defer f.Close()
	b := make([]byte, 8)
	if _, err := io.ReadFull(f, b); err != nil {
		return "", err
	}
	const digits = "0123456789abcdef"
	text := make([]byte, 0, 2*len(b))
	for _, c := range b {
		text = append(text, digits[c>>4], digits[c&15])
	}
	return string(text), nil
}

// socketPair makes the two ends, neither of which any child inherits by itself. Ours waits without a thread.
func socketPair() (ours, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	if err := syscall.SetNonblock(fds[0], true); err != nil {
		closeAll(fds[:])
		return nil, nil, os.NewSyscallError("setnonblock", err)
	}
	return os.NewFile(uintptr(fds[0]), "guardian"), os.NewFile(uintptr(fds[1]), "guardian"), nil //nolint:gosec // G115: a descriptor is not negative
}

// Whoever is started as a guardian becomes one here, and main is never reached. Go initializes packages in the order of their paths,
// each as soon as all that it imports has been: so this happens before the packages of others have been initialized, which takes longer
// than all else between the start of Dragoman and that of a child. For that this package imports, on Linux, nothing but os, syscall and what
// these need themselves: not fmt, strings, bytes, flag or encoding, nor runtime/debug and golang.org/x/sys/unix, which come after a hundred
// others. TestStart holds it to that.
func init() {
	if !called() {
		goAhead()
		return
	}
	code := make(chan int) // a goroutine of its own, since this one is bound to its thread for now
	go func() { code <- watchOver() }()
	os.Exit(<-code)
}

// called says whether this process has been started as a guardian.
func called() bool { return len(os.Args) > 0 && os.Args[0] == title && os.Getenv(callKey) != "" }
