//go:build unix

package guardian

import (
	"errors"
	"io"
)

// Between us and the guardian go frames in the host's own hands: nobody else ever sees them, and both ends are the same
// binary. A request is a head, which carries a start's descriptors, and a body; an answer is of one size. The numbers in them are
// written without encoding/binary for the sake of the guardian's start, see init.
const (
	headSize   = 16
	answerSize = 24
	// bodyMost is more than the system lets through execve (a quarter of the stack's limit, and 6 MiB at most).
	bodyMost = 8 << 20
	// version guards against an Exe that is not the same program.
	version = 1
)

// put32 and the others write and read as little endian.
func put32(b []byte, n uint32) { _ = append32(b[:0], n) }

func put64(b []byte, n uint64) {
	put32(b[0:], uint32(n)) //nolint:gosec // G115: the lower half
	put32(b[4:], uint32(n>>32))
}

func append32(b []byte, n uint32) []byte {
	return append(b, byte(n), byte(n>>8), byte(n>>16), byte(n>>24)) //nolint:gosec // G115: a byte each
}

func get32(b []byte) uint32 {
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

func get64(b []byte) uint64 { return uint64(get32(b)) | uint64(get32(b[4:]))<<32 }

type kind uint8

const (
	askStart kind = iota + 1
	askTerm
	askKill
	sayHello   // a: version
	sayStarted // a: process id
	sayFailed  // a: errno
	sayExited  // a: wait status
	sayGone
)

// head begins a request.
type head struct {
	kind kind
	size uint32 // of the body
	id   uint64 // of the child
}

func (h head) encode(b *[headSize]byte) {
	put32(b[0:], h.size)
	b[4] = byte(h.kind)
	put64(b[8:], h.id)
}

func decodeHead(b *[headSize]byte) head {
	return head{kind: kind(b[4]), size: get32(b[0:]), id: get64(b[8:])}
}

// answer is what the guardian says.
type answer struct {
	kind kind
	id   uint64
	a    int32
}

func (a answer) encode(b *[answerSize]byte) {
	b[0] = byte(a.kind)
	put64(b[8:], a.id)
	put32(b[16:], uint32(a.a)) //nolint:gosec // G115: the same bits
}

func decodeAnswer(b *[answerSize]byte) answer {
	a := answer{kind: kind(b[0]), id: get64(b[8:])}
	a.a = int32(get32(b[16:])) //nolint:gosec // G115: the same bits
	return a
}

// answers takes answers out of what is read, many at once.
type answers struct {
	buf      [64 * answerSize]byte
	from, to int
}

func (r *answers) next(from io.Reader) (answer, error) {
	if r.to-r.from < answerSize {
		r.from, r.to = 0, copy(r.buf[:], r.buf[r.from:r.to])
		n, err := io.ReadAtLeast(from, r.buf[r.to:], answerSize-r.to)
		if r.to += n; err != nil {
			return answer{}, err
		}
	}
	r.from += answerSize
	return decodeAnswer((*[answerSize]byte)(r.buf[r.from-answerSize:])), nil
}

var errBody = errors.New("guardian: a start request that makes no sense")

// appendStart writes the body of a start: path, directory, argv, environment, each string after its length.
func appendStart(b []byte, s *Spec, mark string) []byte {
	text := func(s string) {
		b = append32(b, uint32(len(s))) //nolint:gosec // G115: the sum is checked against bodyMost
		b = append(b, s...)
	}
	count := func(n int) { b = append32(b, uint32(n)) } //nolint:gosec // G115: likewise
	text(s.Path)
	text(s.Dir)
	count(len(s.Argv))
	for _, arg := range s.Argv {
		text(arg)
	}
	count(len(s.Env) + 1)
	for _, entry := range s.Env {
		text(entry)
	}
	text(mark)
	return b
}

// order is a start request as the guardian has it.
type order struct {
	id        uint64
	path, dir string
	argv, env []string
	files     []int
}

// decodeStart reads what appendStart has written.
func decodeStart(b []byte) (order, error) {
	var o order
	bad := false
	count := func() int {
		if len(b) < 4 {
			bad = true
			return 0
		}
		n := get32(b)
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
		if n > len(b)/4 { // four bytes of length each
			bad = true
			return nil
		}
		out := make([]string, n)
		for i := range out {
			out[i] = text()
		}
		return out
	}
	o.path, o.dir, o.argv, o.env = text(), text(), list(), list()
	if bad || len(b) > 0 {
		return order{}, errBody
	}
	return o, nil
}
