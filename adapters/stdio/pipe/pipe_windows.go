package pipe

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

// New returns the two ends of a pipe. If childReads is true the child has the reading end, else the writing end. The
// proxy's end waits in the runtime's poller: it has deadlines, Close ends a wait, and a wait holds no thread. None of
// this is true for the system's anonymous pipes. Those are named pipes too, so the child sees no difference.
//
// Another process that guesses the name could open the writer's end between the two calls. Then CreateFile fails, and New
// with it.
func New(childReads bool) (child, ours *os.File, err error) {
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
		1, capacity, capacity, 0, nil)
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

// available returns how many bytes can be read without waiting; io.EOF once there is no writer any more.
func (r *Reader) available() (int, error) {
	if err := r.raw.Read(r.call.step); err != nil {
		return 0, os.ErrClosed
	}
	return r.call.n, r.call.err
}

// readStep reads how many bytes are available, without waiting.
func (r *Reader) readStep(fd uintptr) bool {
	var there uint32
	ok, _, cause := syscall.SyscallN(peekNamedPipe.Addr(), fd, 0, 0, 0, uintptr(unsafe.Pointer(&there)), 0)
	r.call.n, r.call.err = int(there), nil
	switch {
	case ok != 0:
	case cause == windows.ERROR_BROKEN_PIPE, cause == windows.ERROR_PIPE_NOT_CONNECTED:
		r.call.err = io.EOF
	default:
		r.call.err = os.NewSyscallError("PeekNamedPipe", cause)
	}
	return true
}

// ReadPark reads once into the buffer that lend returns. While the pipe is empty it waits without a buffer: it calls back
// before waiting, and lend again afterwards.
func (r *Reader) ReadPark(lend func() []byte, back func()) (int, error) {
	if r.discarded.Load() { // Drain holds the lock until the child has ended
		return 0, ErrDiscarded
	}
	r.reading.Lock()
	defer r.reading.Unlock()
	for parked := false; !r.discarded.Load(); {
		finished := r.finished.Load() // loaded first, so that everything written before is found
		n, err := r.available()
		switch {
		case err != nil:
			return r.result(0, err)
		case finished && (n == 0 || r.left <= 0):
			return r.result(0, io.EOF)
		case n == 0 && !parked:
			back()
			// A read of no bytes returns when data is there. The next iteration finds out why it returned.
			_, _ = r.file.Read(nil)
			parked = true
			continue
		case finished: // and the deadline has passed
			_ = r.file.SetReadDeadline(time.Time{}) // fails only if the file is closed, and then the read fails too
		}
		// The wait may have ended without data: the child has written no bytes, which os.File takes for the end.
		n, err = r.file.Read(lend())
		if n > 0 || err != io.EOF && !errors.Is(err, os.ErrDeadlineExceeded) {
			if finished {
				r.left -= n
			}
			return r.result(n, err)
		}
		parked = false
	}
	return 0, ErrDiscarded
}

// Write writes all of p. It waits until the write deadline at most. The pipe does not grow.
func (w *Writer) Write(p []byte) (int, error) { return w.file.Write(p) }

func (w *Writer) writeStep(uintptr) bool { return true }

func (w *Writer) fillStep(uintptr) bool { return true }

// Unread returns how many bytes the child has not read yet; known is false if the system does not tell.
func (w *Writer) Unread() (n int, known bool) { return 0, false }
