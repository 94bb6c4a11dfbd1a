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
// ended by Close and keeps no thread, none of which is true of the system's anonymous pipes; those are named ones too, of
// this make. The child's end is what an anonymous pipe would give it.
//
// Between the two calls another process could open the child's end, if it guesses the name. Then ours fails, and nothing has
// been written yet.
func newPipe(childReads bool) (child, ours *os.File, err error) {
	random := make([]byte, 16)
	_, _ = rand.Read(random) // never fails
	name := fmt.Sprintf(`\\.\pipe\dragoman-%d-%s`, os.Getpid(), hex.EncodeToString(random))
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, nil, err
	}
	direction, access := uint32(windows.PIPE_ACCESS_INBOUND), uint32(windows.GENERIC_WRITE|windows.FILE_READ_ATTRIBUTES)
	if childReads {
		direction, access = windows.PIPE_ACCESS_OUTBOUND, windows.GENERIC_READ|windows.FILE_WRITE_ATTRIBUTES
	}
	own, err := windows.CreateNamedPipe(path, direction|windows.FILE_FLAG_OVERLAPPED|windows.FILE_FLAG_FIRST_PIPE_INSTANCE,
		windows.PIPE_TYPE_BYTE|windows.PIPE_READMODE_BYTE|windows.PIPE_WAIT|windows.PIPE_REJECT_REMOTE_CLIENTS,
		1, chunkSize, chunkSize, 0, nil)
	if err != nil {
		return nil, nil, os.NewSyscallError("CreateNamedPipe", err)
	}
	theirs, err := windows.CreateFile(path, access, 0, nil, windows.OPEN_EXISTING,
		windows.SECURITY_SQOS_PRESENT|windows.SECURITY_ANONYMOUS, 0)
	if err != nil {
		_ = windows.CloseHandle(own)
		return nil, nil, os.NewSyscallError("CreateFile", err)
	}
	return os.NewFile(uintptr(theirs), name), os.NewFile(uintptr(own), name), nil
}

// available tells how much can be read without waiting; the error is io.EOF when nobody can write any more.
func (o *outPipe) available() (n int, err error) {
	var there uint32
	var ok uintptr
	var cause error
	err = o.raw.Control(func(fd uintptr) {
		ok, _, cause = peekNamedPipe.Call(fd, 0, 0, 0, uintptr(unsafe.Pointer(&there)), 0)
	})
	switch {
	case err != nil:
		return 0, os.ErrClosed
	case ok == 0 && cause == windows.ERROR_BROKEN_PIPE:
		return 0, io.EOF
	case ok == 0:
		return 0, os.NewSyscallError("PeekNamedPipe", cause)
	}
	return int(there), nil
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
		n, err := o.available()
		finished := o.finished.Load()
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

func (o *outPipe) readStep(uintptr) bool { return true }

func (i *inPipe) writeStep(uintptr) bool { return true }

// growPipe cannot: a pipe is as large as it was made.
func growPipe(syscall.RawConn, int) {}
