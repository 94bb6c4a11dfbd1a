//go:build unix

package guardian

import (
	"io"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// fork executes children, one after the other. It has a thread of its own, which ends with the process and no sooner: a
// child's PDEATHSIG is sent when the thread that forked it ends (prctl(2)).
func fork(jobs <-chan order, forked chan<- birth, turns turns, brand uint64) {
	runtime.LockOSThread()
	for o := range jobs {
		attr := &syscall.ProcAttr{Dir: o.dir, Env: o.env, Sys: childAttr()}
		for _, fd := range o.files {
			attr.Files = append(attr.Files, uintptr(fd)) //nolint:gosec // G115: a descriptor is not negative
		}
		turns.take()
		burn(0, brand, o.id)
		pid, err := syscall.ForkExec(o.path, o.argv, attr)
		turns.pass()
		if err == nil {
			burn(pid, brand, o.id)
		}
		closeAll(o.files)
		forked <- birth{id: o.id, pid: pid, err: err}
	}
}

// turns lets one forker at a time fork: the brand that a child inherits is the process's, not the thread's. Who has been at
// it for turnTime has forked for certain, and waits for the file system.
type turns chan struct{}

func (t turns) take() {
	patience := time.NewTimer(turnTime)
	defer patience.Stop()
	select {
	case <-t:
	case <-patience.C:
	}
}

func (t turns) pass() {
	select {
	case t <- struct{}{}:
	default: // somebody did not wait for us
	}
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd) // nothing was written to it by us
	}
}

// receive reads requests until the socket ends, or says something that we do not understand.
func receive(requests chan<- request) {
	defer close(requests)
	var body []byte
	for {
		h, files, err := readHead()
		if err != nil || h.size > bodyMost {
			closeAll(files)
			return
		}
		r := request{kind: h.kind, order: order{id: h.id}}
		if h.size > 0 {
			if uint32(cap(body)) < h.size { //nolint:gosec // G115: at most bodyMost
				body = make([]byte, h.size)
			}
			body = body[:h.size]
			if err := readFull(body); err != nil {
				closeAll(files)
				return
			}
			if r.order, err = decodeStart(body); err != nil {
				closeAll(files)
				return
			}
			if cap(body) > 64<<10 { // few are that large
				body = nil
			}
			r.order.id, r.order.files = h.id, files
			if len(files) != 3 { // the system hands over none where there is no room for all
				closeAll(files)
				r.err = syscall.EMFILE
			}
		}
		requests <- r
	}
}

// readHead reads a head, and the descriptors that came with it, which no child may inherit.
func readHead() (head, []int, error) {
	var b [headSize]byte
	oob := make([]byte, unix.CmsgSpace(3*4))
	n, oobn, err := receiveRights(b[:], oob)
	if err != nil {
		return head{}, nil, err
	}
	var files []int
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	for i := range msgs {
		fds, rightsErr := unix.ParseUnixRights(&msgs[i])
		if rightsErr == nil {
			files = append(files, fds...)
		}
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err == nil && n < len(b) {
		err = readFull(b[n:])
	}
	return decodeHead(&b), files, err
}

func readFull(b []byte) error {
	for len(b) > 0 {
		n, err := unix.Read(socketFD, b)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrUnexpectedEOF
		}
		b = b[n:]
	}
	return nil
}
