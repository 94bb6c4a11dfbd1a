//go:build unix

package reaper

import (
	"errors"
	"io"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// fork starts children, one after the other, and reports each. It keeps a thread of its own for the life of the process: a
// child's PDEATHSIG is sent when the thread that forked it ends (prctl(2)).
func (s *server) fork() {
	runtime.LockOSThread()
	for r := range s.starts {
		attr := &syscall.ProcAttr{Dir: r.dir, Env: r.env, Sys: childAttr()}
		for _, fd := range r.files {
			attr.Files = append(attr.Files, uintptr(fd))
		}
		s.forkTurn.take()
		s.forking.Add(1)
		setLimitMark(0, s.limitMark, r.id)
		pid, err := syscall.ForkExec(r.path, r.argv, attr)
		s.forking.Add(-1)
		s.forkTurn.pass()
		closeAll(r.files) // before the report: its pipes are between Dragoman and the child alone
		if err != nil {
			s.failed(r.id, err)
		} else {
			s.report(evStarted, r.id, int32(pid)) //nolint:gosec // G115: a process id is small
			setLimitMark(pid, s.limitMark, r.id)
		}
		s.forked <- forkResult{id: r.id, pid: pid, err: err}
	}
}

// forkTurn lets one forker at a time fork, because the limit mark that a child inherits belongs to the process, not to the
// thread. A forker that takes longer than turnTime has forked and waits for the file system, or the machine is overloaded: then a
// child may carry the limit mark of another one until it executes its program, for which recognise allows.
type forkTurn chan struct{}

func (t forkTurn) take() {
	patience := time.NewTimer(turnTime)
	defer patience.Stop()
	select {
	case <-t:
	case <-patience.C:
	}
}

func (t forkTurn) pass() {
	select {
	case t <- struct{}{}:
	default: // another forker did not wait for us
	}
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd) // we have written nothing to it
	}
}

// receive reads requests until the socket ends or a request is malformed. It starts a forker whenever all others may be busy.
func (s *server) receive() {
	defer close(s.requests)
	running := 0 // forkers
	for {
		f, files, err := s.readRequest()
		if err != nil || f.value < 0 || f.value > maxBody {
			closeAll(files)
			return
		}
		if f.kind != reqStart {
			s.requests <- f
			continue
		}
		start, err := s.readStart(f)
		switch {
		case err != nil:
			closeAll(files)
			return
		case len(files) != 3: // the system passes none where there is no room for all
			closeAll(files)
			s.failed(f.id, unix.EMFILE)
			continue
		}
		start.files = files
		s.pending.add(f.id)
		if running < min(s.pending.count(), forkers) {
			running++
			go s.fork()
		}
		s.starts <- start // has room for more starts than Dragoman keeps in progress
	}
}

func (s *server) readStart(f frame) (startRequest, error) {
	body := make([]byte, f.value)
	if _, err := io.ReadFull(s.socket, body); err != nil {
		return startRequest{}, err
	}
	r, err := decodeStart(body)
	r.id = f.id
	return r, err
}

// readRequest reads a request and the descriptors that come with it, which no child may inherit.
func (s *server) readRequest() (frame, []int, error) {
	b := make([]byte, frameSize)
	oob := make([]byte, unix.CmsgSpace(3*4))
	n, oobn, err := receiveRights(s.socket, b, oob)
	if err != nil {
		return frame{}, nil, err
	}
	files, err := rightsIn(oob[:oobn])
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err == nil && n < len(b) {
		_, err = io.ReadFull(s.socket, b[n:])
	}
	return decodeFrame(b), files, err
}

// rightsIn returns the descriptors in a control message.
func rightsIn(oob []byte) ([]int, error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	var files []int
	for i := range msgs {
		fds, rightsErr := unix.ParseUnixRights(&msgs[i])
		if rightsErr == nil {
			files = append(files, fds...)
		}
	}
	return files, err
}

// report sends an event. It waits while Dragoman does not read; once Dragoman is gone the event is lost, and receive sees the
// end.
func (s *server) report(k kind, id uint64, value int32) {
	_, _ = s.socket.Write(frame{kind: k, id: id, value: value}.encode()) // whole, and not mixed with those of others: see net.Conn
}

// failed reports that a child was not started.
func (s *server) failed(id uint64, err error) {
	errno := unix.EINVAL
	errors.As(err, &errno)
	s.report(evFailed, id, int32(errno))
}
