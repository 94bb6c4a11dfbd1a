//go:build unix

package reaper

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
)

// The frames between us and the reaper process. Both ends are the same binary on the same machine. A request is a head, with which
// the descriptors of a start travel, and a body; an event has a fixed size. Numbers are little endian.
const (
	headSize  = 16
	eventSize = 24
	// maxBody is more than execve takes (a quarter of the stack's limit, and 6 MiB at most).
	maxBody = 8 << 20
	// maxStarts bounds the starts in progress: each has three descriptors in the reaper process.
	maxStarts = 64
	// forkers is how many children can be started at a time; one on a file system that hangs keeps one of them.
	forkers = 4
	// version guards against an Exe that is another program, or another version of this one.
	version = 2
)

var order = binary.LittleEndian

type kind uint8

const (
	reqStart kind = iota + 1
	reqTerminate
	reqKill
	evReady   // value: version
	evStarted // value: process id
	evFailed  // value: errno
	evExited  // value: wait status
	evGone
)

// head begins a request.
type head struct {
	kind kind
	size uint32 // of the body, in bytes
	id   uint64 // of the child
}

func (h head) encode(b *[headSize]byte) {
	order.PutUint32(b[0:], h.size)
	b[4] = byte(h.kind)
	order.PutUint64(b[8:], h.id)
}

func decodeHead(b *[headSize]byte) head {
	return head{kind: kind(b[4]), size: order.Uint32(b[0:]), id: order.Uint64(b[8:])}
}

// event is what the reaper process reports about a child.
type event struct {
	kind  kind
	id    uint64
	value int32
}

func (e event) encode(b *[eventSize]byte) {
	b[0] = byte(e.kind)
	order.PutUint64(b[8:], e.id)
	order.PutUint32(b[16:], uint32(e.value)) //nolint:gosec // G115: the same bits
}

func decodeEvent(b *[eventSize]byte) event {
	return event{kind: kind(b[0]), id: order.Uint64(b[8:]), value: int32(order.Uint32(b[16:]))} //nolint:gosec // G115: the same bits
}

// readEvent reads the next event.
func readEvent(from io.Reader) (event, error) {
	var b [eventSize]byte
	if _, err := io.ReadFull(from, b[:]); err != nil {
		return event{}, err
	}
	return decodeEvent(&b), nil
}

var errBody = errors.New("reaper: malformed start request")

// appendStart appends the body of a start, each string behind its length.
func appendStart(b []byte, path, dir string, argv, env []string) []byte {
	count := func(n int) { b = order.AppendUint32(b, uint32(n)) } //nolint:gosec // G115: the sum is checked against maxBody
	text := func(s string) {
		count(len(s))
		b = append(b, s...)
	}
	list := func(all []string) {
		count(len(all))
		for _, s := range all {
			text(s)
		}
	}
	text(path)
	text(dir)
	list(argv)
	list(env)
	return b
}

// startRequest is a start as the reaper process receives it.
type startRequest struct {
	id        uint64
	path, dir string
	argv, env []string
	files     []int
}

// decodeStart decodes the body of a start.
func decodeStart(b []byte) (startRequest, error) {
	var r startRequest
	bad := false
	count := func() int {
		if len(b) < 4 {
			bad = true
			return 0
		}
		n := order.Uint32(b)
		b = b[4:]
		if uint64(n) > uint64(len(b)) {
			bad = true
			return 0
		}
		return int(n)
	}
	text := func() string {
		n := count()
		s := string(b[:n])
		b = b[n:]
		return s
	}
	list := func() []string {
		n := count()
		if n > len(b)/4 { // each string has four bytes of length
			bad = true
			return nil
		}
		out := make([]string, n)
		for i := range out {
			out[i] = text()
		}
		return out
	}
	r.path, r.dir, r.argv, r.env = text(), text(), list(), list()
	if bad || len(b) > 0 {
		return startRequest{}, errBody
	}
	return r, nil
}

// socketOf takes over a descriptor that is a Unix socket.
func socketOf(fd int) (*net.UnixConn, error) {
	file := os.NewFile(uintptr(fd), "reaper")
	defer file.Close() // net.FileConn has its own
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		_ = conn.Close()
		return nil, errors.New("reaper: the descriptor is no Unix socket")
	}
	return socket, nil
}
