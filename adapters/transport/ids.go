package transport

import (
	"crypto/rand"
	"encoding/binary"
	"math"
	"sync"
)

// IDs mints the ids of one link's requests. No two links of the process use the same id at a time, whatever their servers: some servers
// send the answers of one session to all of their sessions, and two bridges may lead to one server. The numbers begin at random, so that
// another process at the same server hardly uses them too, and stay within 31 bits, which every server can read.
//
// The zero value is ready. Next must not be called concurrently; Of and Release may be called at any time.
type IDs struct {
	next, end uint64 // of the block in use

	// Under blocks.mu.
	all      []uint64 // the blocks, oldest first
	released bool
}

const (
	blockSize  = 256     // ids that a link reserves at a time
	firstBlock = 1 << 12 // small numbers are left to clients that count from zero
	lastBlock  = 1 << 23
	maxBlocks  = 64 // most recent blocks of a link whose ids are known as its own
)

// blocks holds the blocks of all links of the process.
var blocks = struct {
	mu     sync.Mutex
	next   uint64
	owners map[uint64]*IDs
}{next: randomBlock(), owners: make(map[uint64]*IDs)}

// randomBlock returns a block from the lower half, so that ids grow for long before they begin anew.
func randomBlock() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return firstBlock + binary.BigEndian.Uint64(b[:])%(lastBlock/2-firstBlock)
}

// Next returns an id that no other request of the process has.
func (x *IDs) Next() uint64 {
	if x.next == x.end {
		x.next = x.reserve() * blockSize
		x.end = x.next + blockSize
	}
	x.next++
	return x.next - 1
}

// Begin makes the following ids n, n+1 and so on, as tests want them. They are not reserved.
func (x *IDs) Begin(n uint64) { x.next, x.end = n, math.MaxUint64 }

// reserve takes the next free block, and gives the oldest one back if the link has many.
func (x *IDs) reserve() (block uint64) {
	blocks.mu.Lock()
	defer blocks.mu.Unlock()
	for taken := true; taken; {
		block = blocks.next
		if blocks.next++; blocks.next >= lastBlock {
			blocks.next = firstBlock
		}
		_, taken = blocks.owners[block]
	}
	if x.released {
		return block
	}
	if len(x.all) == maxBlocks {
		delete(blocks.owners, x.all[0])
		x.all = append(x.all[:0], x.all[1:]...)
	}
	x.all = append(x.all, block)
	blocks.owners[block] = x
	return block
}

// Release gives all blocks back. It is called when the link is closed.
func (x *IDs) Release() {
	blocks.mu.Lock()
	defer blocks.mu.Unlock()
	for _, block := range x.all {
		delete(blocks.owners, block)
	}
	x.all, x.released = nil, true
}

// Of says whose request an answer is for that matches no open request of the link.
func (x *IDs) Of(id uint64) Stray {
	blocks.mu.Lock()
	defer blocks.mu.Unlock()
	switch owner := blocks.owners[id/blockSize]; owner {
	case nil:
		return Unknown
	case x:
		return Late
	}
	return Foreign
}

// Stray says whose request an answer was for that matches no open request of its link.
type Stray string

// The values of Stray, which are also labels of a metric.
const (
	Late    Stray = "late"    // a request of the link itself, which has ended here or waits elsewhere
	Foreign Stray = "foreign" // a request of another link: the server sends the answers of one session to others too
	Unknown Stray = "unknown" // no request of this process, as far as is known
)

// Watcher is a Sink that is told of answers that match no open request.
type Watcher interface {
	// Stray is called for each such answer, which is then dropped. It must not block.
	Stray(of Stray)
}

// Report reports an answer to the sink, if that wants to know.
func Report(sink Sink, of Stray) {
	if w, ok := sink.(Watcher); ok {
		w.Stray(of)
	}
}
