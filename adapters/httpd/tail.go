package httpd

import "time"

// After Finish, the end of a body may still be this far away.
const (
	drainTime  = 5 * time.Millisecond
	drainBytes = 16 << 10
)

// Ahead gives what of the body is here in one piece, and waits for nothing; Pass goes over it. It is valid until something else is read.
func (a Answer) Ahead() []byte {
	if c := a.conn(); c != nil && c.headDone {
		return c.body.ahead()
	}
	return nil
}

// Pass goes over the first n bytes of what Ahead gave.
func (a Answer) Pass(n int) {
	if c := a.conn(); c != nil {
		c.body.pass(n)
	}
}

// ahead gives what is buffered in one piece: up to the end of a chunk.
func (b *body) ahead() []byte {
	b.frames()
	if b.done || b.err != nil || b.kind == bodyChunked && b.state != chunkData {
		return nil
	}
	n := b.br.Buffered()
	if b.kind != bodyUntilClose {
		n = int(min(int64(n), b.left))
	}
	piece, _ := b.br.Peek(n) // it is there
	return piece
}

// pass goes over n bytes of what ahead gave.
func (b *body) pass(n int) {
	_, _ = b.br.Discard(n) // they are there
	b.got += int64(n)
	if b.kind == bodyUntilClose {
		return
	}
	b.left -= int64(n)
	switch {
	case b.left > 0:
	case b.kind == bodyLength:
		b.done = true
	default:
		b.state = chunkEnd
		b.frames()
	}
}

// frames goes over what is buffered of the framing between chunks.
func (b *body) frames() {
	for b.kind == bodyChunked && b.state != chunkData && !b.done && b.err == nil {
		if err := b.step(false); err == errMore {
			return
		} else if err != nil {
			b.err = err // told at the next read
		}
	}
}

// skip goes over what is buffered of the rest of a body, and reads nothing. It tells whether that was all of it.
func (b *body) skip() bool {
	for piece := b.ahead(); len(piece) > 0; piece = b.ahead() {
		b.pass(len(piece))
	}
	return b.done
}

// ending prepares for what is to come of a body whose reader has finished. Nobody waits for it: the connection goes into the pool as it is, and
// owes it to who takes it.
func (c *upConn) ending() {
	if !c.headDone || c.lastUse || c.body.err != nil || c.body.skip() {
		return
	}
	switch now := time.Now(); {
	case c.body.err != nil:
	case looks && c.look != nil:
		c.owes = now.Add(drainTime)
	default: // nobody could see later whether it has come
		c.settle(now.Add(drainTime))
	}
}

// settle reads the end that is owed, until a time. It tells whether the connection may be used.
func (c *upConn) settle(until time.Time) bool {
	if cap(c.out) < 1<<10 {
		c.out = make([]byte, 0, 1<<10)
	}
	sink := c.out[:1<<10] // the request has left
	for left := drainBytes; left > 0 && !c.body.done; {
		n, err := c.read(sink, until)
		left -= n
		if err != nil {
			break
		}
	}
	c.owes = time.Time{}
	return c.body.done && c.body.err == nil && c.br.Buffered() == 0
}

// settled waits for the end that is owed as long as it may take.
func (c *upConn) settled(now time.Time) bool {
	until := c.owes
	if c.look.peek() == sockBytes { // it may have come long ago
		until = now.Add(drainTime)
	}
	return until.After(now) && c.settle(until)
}
