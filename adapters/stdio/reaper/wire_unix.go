//go:build unix

package reaper

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
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
	version = 3
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

// encodeStart returns the body of a start: the strings and how many there are, each ended by a zero byte. The errors are those of
// execve.
func encodeStart(path, dir string, argv, env []string) ([]byte, error) {
	all := slices.Concat([]string{path, dir, strconv.Itoa(len(argv)), strconv.Itoa(len(env))}, argv, env, []string{""})
	body := strings.Join(all, "\x00")
	switch {
	case strings.Count(body, "\x00") != len(all)-1: // in one of the strings
		return nil, syscall.EINVAL
	case len(body) > maxBody:
		return nil, syscall.E2BIG
	}
	return []byte(body), nil
}

// startRequest is a start as the reaper process receives it.
type startRequest struct {
	id        uint64
	path, dir string
	argv, env []string
	files     []int
}

// decodeStart decodes the body of a start.
func decodeStart(body []byte) (startRequest, error) {
	all := strings.Split(string(body), "\x00")
	if len(all) > 4 && all[len(all)-1] == "" {
		strs := all[4 : len(all)-1]
		argc, err := strconv.Atoi(all[2])
		envc, envErr := strconv.Atoi(all[3])
		if err == nil && envErr == nil && 0 <= argc && argc <= len(strs) && envc == len(strs)-argc {
			return startRequest{path: all[0], dir: all[1], argv: strs[:argc], env: strs[argc:]}, nil
		}
	}
	return startRequest{}, errors.New("reaper: malformed start request")
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
