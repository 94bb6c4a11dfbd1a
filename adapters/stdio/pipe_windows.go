package stdio

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

var peekNamedPipe = windows.NewLazySystemDLL("kernel32.dll").NewProc("PeekNamedPipe")

// newPipe makes a pipe and says which end is the child's. Ours waits in the runtime's poller, so that it knows deadlines, is
// ended by Close and keeps no thread, none of which is true of the system's anonymous pipes. Those are named ones too, of
// this make, and the child cannot tell.
//
// Between the two calls another process could open the writer's end, if it guesses the name. Then we cannot, and give up.
func newPipe(childReads bool) (child, ours *os.File, err error) {
	random := make([]byte, 16)
	_, _ = rand.Read(random) // never fails
	name := fmt.Sprintf(`\\.\pipe\dragoman-%d-%s`, os.Getpid(), hex.EncodeToString(random))
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, nil, err
	}
	forReader, forWriter := uint32(windows.FILE_FLAG_OVERLAPPED), uint32(0)
	if childReads {
		forReader, forWriter = forWriter, forReader
	}
	r, err := windows.CreateNamedPipe(path, windows.PIPE_ACCESS_INBOUND|windows.FILE_FLAG_FIRST_PIPE_INSTANCE|forReader,
		windows.PIPE_TYPE_BYTE|windows.PIPE_READMODE_BYTE|windows.PIPE_WAIT|windows.PIPE_REJECT_REMOTE_CLIENTS,
		1, chunkSize, chunkSize, 0, nil)
	if err != nil {
		return nil, nil, os.NewSyscallError("CreateNamedPipe", err)
	}
	w, err := windows.CreateFile(path, windows.GENERIC_WRITE|windows.FILE_READ_ATTRIBUTES, 0, nil, windows.OPEN_EXISTING,
		windows.SECURITY_SQOS_PRESENT|windows.SECURITY_ANONYMOUS|forWriter, 0)
	if err != nil {
		_ = windows.CloseHandle(r)
		return nil, nil, os.NewSyscallError("CreateFile", err)
	}
	reader, writer := os.NewFile(uintptr(r), name), os.NewFile(uintptr(w), name)
	if childReads {
		return reader, writer, nil
	}
	return writer, reader, nil
}

// available tells how much can be read without waiting; the error is io.EOF when nobody can write any more.
func (o *outPipe) available() (int, error) {
	if err := o.raw.Read(o.call.step); err != nil {
		return 0, os.ErrClosed
	}
	return o.call.n, o.call.err
}

// readStep looks at what is there and never asks to wait.
func (o *outPipe) readStep(fd uintptr) bool {
	var there uint32
	ok, _, cause := syscall.SyscallN(peekNamedPipe.Addr(), fd, 0, 0, 0, uintptr(unsafe.Pointer(&there)), 0)
	o.call.n, o.call.err = int(there), nil
	switch {
	case ok != 0:
	case cause == windows.ERROR_BROKEN_PIPE, cause == windows.ERROR_PIPE_NOT_CONNECTED:
		o.call.err = io.EOF
	default:
		o.call.err = os.NewSyscallError("PeekNamedPipe", cause)
	}
	return true
}

// Read reads once, waiting for something to be there.
func (o *outPipe) Read(p []byte) (int, error) {
	return o.ReadPark(func() []byte { return p }, func() {})
}

// ReadPark implements parkReader: while the pipe is empty the goroutine waits in the poller without a buffer.
func (o *outPipe) ReadPark(lend func() []byte, back func()) (int, error) {
	if o.muted.Load() { // discard has the lock, for as long as the child takes to end
		return 0, ErrStopped
	}
	o.reading.Lock()
	defer o.reading.Unlock()
	for parked := false; !o.muted.Load(); {
		finished := o.finished.Load() // first: what is written until then is found
		n, err := o.available()
		switch {
		case err != nil:
			return o.verdict(0, err)
		case finished && (n == 0 || o.left <= 0):
			return o.verdict(0, io.EOF)
		case n == 0 && !parked:
			back()
			// A read of nothing ends when something is there. What ended it is looked at in the next turn.
			_, _ = o.file.Read(nil)
			parked = true
			continue
		case finished: // and the deadline has passed
			_ = o.file.SetReadDeadline(time.Time{}) // fails only if it is closed, as the read will
		}
		// Nothing may be there though the wait has ended: the child has written no bytes, which os.File takes for the end.
		n, err = o.file.Read(lend())
		if n > 0 || err != io.EOF && !errors.Is(err, os.ErrDeadlineExceeded) {
			if finished {
				o.left -= n
			}
			return o.verdict(n, err)
		}
		parked = false
	}
	return 0, ErrStopped
}

// Write writes all of p, waiting as long as needed. The pipe is as large as it was made.
func (i *inPipe) Write(p []byte) (int, error) { return i.file.Write(p) }

func (i *inPipe) writeStep(uintptr) bool { return true }

func (i *inPipe) fillStep(uintptr) bool { return true }
