package netpoll

import (
	"net"
	"syscall"
)

// Parts are bytes to be written that stand in several places, one part behind the other. Make them with NewParts.
type Parts struct {
	List [][]byte // what is not written yet
	Left int      // bytes of List
	err  error
	now  func(fd uintptr) // try, as RawConn wants it: made once, so that a write allocates nothing
}

// Init makes p ready for its first use.
func (p *Parts) Init() { p.now = p.try }

// Reset forgets the parts and keeps the memory of the list.
func (p *Parts) Reset() {
	clear(p.List[:cap(p.List)])
	p.List, p.Left, p.err = p.List[:0], 0, nil
}

// Count sets Left to the length of List.
func (p *Parts) Count() {
	p.Left = 0
	for _, part := range p.List {
		p.Left += len(part)
	}
}

// Skip drops the first n bytes.
func (p *Parts) Skip(n int) {
	p.Left -= n
	at := 0
	for at < len(p.List) && n >= len(p.List[at]) {
		n -= len(p.List[at])
		at++
	}
	p.List = p.List[:copy(p.List, p.List[at:])]
	if n > 0 {
		p.List[0] = p.List[0][n:]
	}
}

// First appends the first bytes to dst, at most limit of them.
func (p *Parts) First(dst net.Buffers, limit int) net.Buffers {
	for _, part := range p.List {
		if limit < len(part) {
			return append(dst, part[:limit])
		}
		dst = append(dst, part)
		if limit -= len(part); limit == 0 {
			break
		}
	}
	return dst
}

// try writes what the socket takes at once.
func (p *Parts) try(fd uintptr) {
	n, err := writeNow(int(fd), p.List)
	p.Skip(n)
	p.err = err
}

// write is try on a connection.
func (p *Parts) write(raw syscall.RawConn) error {
	if err := raw.Control(p.now); err != nil {
		return err
	}
	return p.err
}
