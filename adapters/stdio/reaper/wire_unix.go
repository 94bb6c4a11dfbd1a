//go:build unix

package reaper

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// The frames between us and the reaper process. Both ends are the same binary on the same machine. A start consists of a frame,
// with which its descriptors travel, and a body. Numbers are little endian.
const (
	frameSize = 16
	// maxBody is more than execve takes (a quarter of the stack's limit, and 6 MiB at most).
	maxBody = 8 << 20
	// maxStarts bounds the starts in progress: each has three descriptors in the reaper process.
	maxStarts = 64
	// forkers is how many children can be started at a time; one on a file system that hangs keeps one of them.
	forkers = 4
	// version guards against an Exe that is another program, or another version of this one.
	version = 4
)

var order = binary.LittleEndian

type kind uint8

const (
	reqStart kind = iota + 1 // value: size of the body, in bytes
	reqTerminate
	reqKill
	evReady   // value: version; id: of the process, not of a child
	evUnkept  // the keeper has ended
	evStarted // value: process id
	evFailed  // value: errno
	evExited  // value: wait status
	evGone
)

// frame is a request to the reaper process, or an event that it reports.
type frame struct {
	kind  kind
	value int32  // see kind
	id    uint64 // of the child
}

func (f frame) encode() []byte {
	b := make([]byte, frameSize)
	b[0] = byte(f.kind)
	order.PutUint32(b[4:], uint32(f.value)) //nolint:gosec // G115: the same bits
	order.PutUint64(b[8:], f.id)
	return b
}

// decodeFrame decodes a frame; b has frameSize bytes.
func decodeFrame(b []byte) frame {
	return frame{kind: kind(b[0]), value: int32(order.Uint32(b[4:])), id: order.Uint64(b[8:])} //nolint:gosec // G115: the same bits
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
