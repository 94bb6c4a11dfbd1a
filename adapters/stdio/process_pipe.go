package stdio

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// outPipe is our end of the child's stdout or stderr.
//
// Its end is not left to the kernel, which reports one only when the last holder of the other end is gone, be it a
// grandchild's daemon. After finish, what lies in the pipe is all there is, and then io.EOF. After discard its reader
// gets ErrStopped, and not io.EOF, lest a line cut off in the middle pass for the last one.
type outPipe struct {
	file *os.File
	raw  syscall.RawConn
	size int // what it grows to; below 1 it does not

	muted    atomic.Bool // discard has been called
	finished atomic.Bool // finish has been called

	reading sync.Mutex // held by whoever reads
	grown   int        // what it has grown to; guarded by reading, as are the rest
	left    int        // how much is still read after finish: a holder that never stops writing must not keep us
	call    readCall
}

// readCall is one system call's worth of reading, kept in the pipe so that it costs no allocation.
type readCall struct {
	lend func() []byte
	back func()
	n    int
	err  error
	step func(fd uintptr) bool
}

func newOutPipe(f *os.File, size int) (*outPipe, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	o := &outPipe{file: f, raw: raw, size: size, left: max(size, defaultPipeSize)}
	o.call.step = o.readStep
	return o, nil
}

// finish says that the child has exited. A reader that waits gets what is there, then io.EOF.
func (o *outPipe) finish() {
	o.finished.Store(true)
	o.interrupt()
}

// interrupt makes a read that waits return. Where pipes know no deadlines, it waits on for the real end or for Close.
func (o *outPipe) interrupt() { _ = o.file.SetReadDeadline(time.Unix(1, 0)) }

// discard takes the pipe away from its reader and reads it to the end, or until Close.
func (o *outPipe) discard() {
	o.muted.Store(true)
	o.interrupt()
	o.reading.Lock()
	defer o.reading.Unlock()
	if !o.finished.Load() {
		_ = o.file.SetReadDeadline(time.Time{}) // should finish come in between, Close still ends the loop
	}
	s := takeSlab(chunkSize)
	defer s.free()
	for {
		if n, err := o.file.Read(s.b[:cap(s.b)]); n == 0 || err != nil {
			return // any end is as good
		}
	}
}

// Close closes our end; whoever reads gets an error.
func (o *outPipe) Close() { _ = o.file.Close() } // fails only if it is closed already

// verdict turns the error of a read into what the Reader shall see.
func (o *outPipe) verdict(n int, err error) (int, error) {
	switch {
	case o.muted.Load(), errors.Is(err, os.ErrClosed):
		return 0, ErrStopped
	case err == nil && n == 0:
		return 0, io.EOF
	}
	return n, err
}

// inPipe is our end of the child's stdin. Only one goroutine writes at a time, which the Writer sees to.
type inPipe struct {
	file  *os.File
	raw   syscall.RawConn
	size  int
	grown int // what it has grown to
	call  writeCall
}

type writeCall struct {
	p          []byte
	n          int
	err        error
	step, fill func(fd uintptr) bool
}

func newInPipe(f *os.File, size int) (*inPipe, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	i := &inPipe{file: f, raw: raw, size: size}
	i.call.step, i.call.fill = i.writeStep, i.fillStep
	return i, nil
}

// SetWriteDeadline cuts the waiting of a Write short.
func (i *inPipe) SetWriteDeadline(t time.Time) error { return i.file.SetWriteDeadline(t) }

// Close ends the child's stdin.
func (i *inPipe) Close() { _ = i.file.Close() } // fails only if it is closed already
