//go:build unix

package guardian

import (
	"io"
	"runtime"
	"syscall"
	"time"
)

// fork executes children, one after the other, and says so. It has a thread of its own, which ends with the process and no
// sooner: a child's PDEATHSIG is sent when the thread that forked it ends (prctl(2)).
func (k *keeper) fork() {
	runtime.LockOSThread()
	for o := range k.jobs {
		attr := &syscall.ProcAttr{Dir: o.dir, Env: o.env, Sys: childAttr()}
		for _, fd := range o.files {
			attr.Files = append(attr.Files, uintptr(fd)) //nolint:gosec // G115: a descriptor is not negative
		}
		k.turns.take()
		k.busy.Add(1)
		burn(0, k.brand, o.id)
		pid, err := syscall.ForkExec(o.path, o.argv, attr)
		k.busy.Add(-1)
		k.turns.pass()
		closeAll(o.files) // before the child is heard of: its pipes are Dragoman's affair alone
		if err != nil {
			say(sayFailed, o.id, int32(errnoOf(err))) //nolint:gosec // G115: small
		} else {
			say(sayStarted, o.id, int32(pid)) //nolint:gosec // G115: a process id is small
			burn(pid, k.brand, o.id)
		}
		k.forked <- birth{id: o.id, pid: pid, err: err}
	}
}

// turns lets one forker at a time fork: the brand that a child inherits is the process's, not the thread's. Who has been at
// it for turnTime has forked and waits for the file system, or the machine is overloaded: then a child may bear another's
// brand until it has been executed, which recognise allows for.
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
		_ = syscall.Close(fd) // nothing was written to it by us
	}
}

// receive reads requests until the socket ends, or says something that we do not understand.
func (k *keeper) receive() {
	defer close(k.requests)
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
			if len(files) == 3 {
				k.pending.add(h.id)
				k.jobs <- r.order // has room for more than Dragoman lets be under way
				continue
			}
			closeAll(files)
			r.err = syscall.EMFILE // the system hands over none where there is no room for all
		}
		k.requests <- r
	}
}

// say writes an answer, which is too short to be written in part. If Dragoman is gone nobody misses it; receive will see the
// end. If Dragoman does not read, we wait: whatever we would do meanwhile it could not be told.
func say(what kind, id uint64, a int32) {
	var b [answerSize]byte
	answer{kind: what, id: id, a: a}.encode(&b)
	for {
		if _, err := syscall.Write(socketFD, b[:]); err != syscall.EINTR {
			return
		}
	}
}

// readHead reads a head, and the descriptors that came with it, which no child may inherit.
func readHead() (head, []int, error) {
	var b [headSize]byte
	oob := make([]byte, syscall.CmsgSpace(3*4))
	n, oobn, err := receiveRights(b[:], oob)
	if err != nil {
		return head{}, nil, err
	}
	var files []int
	msgs, err := syscall.ParseSocketControlMessage(oob[:oobn])
	for i := range msgs {
		fds, rightsErr := syscall.ParseUnixRights(&msgs[i])
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
		n, err := syscall.Read(socketFD, b)
		if err == syscall.EINTR {
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
