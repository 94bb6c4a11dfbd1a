package proxy

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"dragoman/proxy/wire"
)

// exchanges is the pool of Borrow, inners that of BorrowInner. They are separate because their slots hold different types.
var (
	exchanges = sync.Pool{New: func() any { return new(Exchange) }}
	inners    = sync.Pool{New: func() any { return new(Exchange) }}
)

// Borrow returns an Exchange of a pool, for a downstream adapter that sees it to its end and then calls Recycle. Code that is not called
// on behalf of the exchange must not keep it; it keeps a Ticket.
func Borrow() *Exchange { return borrow(&exchanges) }

// BorrowInner is Borrow for an exchange that serves another one.
func BorrowInner() *Exchange { return borrow(&inners) }

func borrow(from *sync.Pool) *Exchange {
	ex := from.Get().(*Exchange)
	ex.borrowed = from
	return ex
}

// Recycle returns an exchange of Borrow to its pool, after Release. Its Replies are closed, and nothing of it, its message or its Lend is
// used any more. It does nothing with an exchange that is not of Borrow, or that may still be referenced because it was cancelled or
// used as a context.
func (ex *Exchange) Recycle() {
	ex.mu.Lock()
	from := ex.borrowed
	if from == nil || ex.cause != nil || ex.done != nil || ex.timer != nil || ex.newer != nil || ex.older != nil {
		ex.mu.Unlock()
		return
	}
	ex.borrowed = nil
	ex.life++
	ex.aborts, ex.firstAborts = nil, [2]Aborter{}
	ex.began, ex.end, ex.limit = time.Time{}, time.Time{}, 0
	over := Poison
	ex.over = over
	ex.mu.Unlock()
	for lent := ex.lent; lent != 0; lent &= lent - 1 {
		ex.slots[bits.TrailingZeros32(lent)].Clear()
	}
	ex.lent = 0
	ex.clear()
	if !over {
		from.Put(ex)
	}
}

// DoNotRecycle makes Recycle do nothing, because code outside the exchange may still hold memory of it.
func (ex *Exchange) DoNotRecycle() {
	ex.mu.Lock()
	ex.borrowed = nil
	ex.mu.Unlock()
}

// maxKeptID is the longest id, in bytes, whose memory is kept.
const maxKeptID = 128

// clear resets the exchange, and keeps its memory.
func (ex *Exchange) clear() {
	ex.Msg, ex.Client, ex.Session, ex.Caller = wire.Message{}, Client{}, nil, Caller{}
	ex.Server, ex.Below, ex.Target, ex.Tool, ex.Through, ex.UpstreamEra, ex.RefusedBy = "", "", "", "", "", 0, ""
	ex.Refusal, ex.PublicName = nil, nil
	ex.Headers, ex.Mirrors, ex.RequestID, ex.Arrival = nil, false, "", nil
	ex.Trace, ex.Continues, ex.Polls = nil, nil, false
	ex.Polled.Store(false)
	ex.Key, ex.Replayed, ex.NotProcessed, ex.Own, ex.Allowance = "", false, false, false, 0
	ex.Lasting.Store(false)
	ex.outgoing.Store(nil)
	ex.Clock, ex.unique = Clock{}, false
	if cap(ex.id) > maxKeptID {
		ex.id = nil
	}
}

// Ticket refers to an exchange that may have ended and whose memory may be reused.
type Ticket struct {
	ex   *Exchange
	life uint64
}

// Ticket returns a Ticket of the exchange.
func (ex *Exchange) Ticket() Ticket {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	return Ticket{ex, ex.life}
}

// Cancel cancels the exchange of the ticket if it has not ended.
func (t Ticket) Cancel(cause error) { t.ex.cancel(cause, t.life) }

// Slot names a place in the memory of an exchange, one for each layer.
type Slot uint8

// The slots of the layers that every exchange passes. Policies make theirs with NewSlot.
const (
	SlotSession Slot = iota
	SlotEra
	SlotWire
	SlotDownstream
	firstSlot

	slots = firstSlot + 11 // of each exchange
)

var nextSlot atomic.Uint32

// NewSlot returns a new slot, for the initializer of a package-level variable of a policy that has memory for each exchange. When all slots
// are taken, Lend allocates.
func NewSlot() Slot {
	return Slot(min(uint32(firstSlot)+nextSlot.Add(1)-1, uint32(slots)))
}

// Clearer is a value that a slot can hold. Clear resets it to its zero value, but may keep its memory.
type Clearer interface{ Clear() }

// Lend returns a zero T in a slot of the exchange, valid until its end. A second call for the same slot allocates.
func Lend[T any, P interface {
	*T
	Clearer
}](ex *Exchange, whose Slot) *T {
	if whose >= slots || ex.lent&(1<<whose) != 0 {
		return new(T)
	}
	ex.lent |= 1 << whose
	if it, ok := ex.slots[whose].(P); ok {
		return it
	}
	it := P(new(T))
	ex.slots[whose] = it
	return it
}
