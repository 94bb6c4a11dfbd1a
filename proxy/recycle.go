package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"dragoman/proxy/wire"
)

// exchanges are lent by Borrow, inners by BorrowInner: what they lend is of other kinds, and each finds that of its own.
var (
	exchanges = sync.Pool{New: func() any { return new(Exchange) }}
	inners    = sync.Pool{New: func() any { return new(Exchange) }}
)

// Borrow gives an Exchange with the memory of another that is over, for a face that sees it to its end and then gives it back by
// Recycle. Whoever is not called by it must not keep it: he keeps a Ticket.
func Borrow() *Exchange { return borrow(&exchanges) }

// BorrowInner is Borrow for who makes an exchange that stands for another.
func BorrowInner() *Exchange { return borrow(&inners) }

func borrow(from *sync.Pool) *Exchange {
	ex := from.Get().(*Exchange)
	ex.borrowed = from
	return ex
}

// Recycle gives back an exchange that Borrow gave, after Release: its Replies are closed, and nothing of it, of its message, or of
// what Lend gave is used any more. Of others, and of one that somebody may still be told about, because it was cancelled or waited
// for as a context, nothing is reused.
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
	for i := range ex.slots {
		if r := &ex.slots[i]; r.lent {
			r.lent = false
			r.it.Clear()
		}
	}
	ex.clear()
	if !over {
		from.Put(ex)
	}
}

// DoNotRecycle has Recycle give nothing back: somebody who does not belong to the exchange may still hold some of what it lent.
func (ex *Exchange) DoNotRecycle() {
	ex.mu.Lock()
	ex.borrowed = nil
	ex.mu.Unlock()
}

// clear forgets all that the exchange said, and keeps its memory.
func (ex *Exchange) clear() {
	ex.Msg, ex.Client, ex.Session, ex.Caller = wire.Message{}, Client{}, nil, Caller{}
	ex.Server, ex.Below, ex.Target, ex.UpstreamEra, ex.RefusedBy = "", "", "", 0, ""
	ex.Headers, ex.Mirrors, ex.RequestID, ex.Arrival = nil, false, "", nil
	ex.Trace, ex.Continues, ex.Polls = nil, nil, false
	ex.Polled.Store(false)
	ex.Key, ex.Replayed, ex.NotProcessed, ex.Own, ex.Allowance = "", false, false, false, 0
	ex.Lasting.Store(false)
	ex.outgoing.Store(nil)
	ex.Clock, ex.unique = Clock{}, false
}

// Ticket is a way to an exchange that may be over, and its memory another's.
type Ticket struct {
	ex   *Exchange
	life uint64
}

// Ticket gives one.
func (ex *Exchange) Ticket() Ticket {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	return Ticket{ex, ex.life}
}

// Cancel cancels the exchange that the ticket was given for, if it is not over.
func (t Ticket) Cancel(cause error) { t.ex.cancel(cause, t.life) }

// Slot says whose memory it is that an exchange lends.
type Slot uint8

// The rooms of the layers that every exchange passes. Those of policies are made by NewSlot.
const (
	SlotSession Slot = iota
	SlotEra
	SlotWire
	SlotDownstream
	firstSlot

	slots = firstSlot + 8 // of each exchange
)

var nextSlot atomic.Uint32

// NewSlot makes a room for the initializer of a package-level variable: a policy that keeps something for each exchange has one of its own.
// When there are no more, Lend allocates.
func NewSlot() Slot {
	return Slot(min(uint32(firstSlot)+nextSlot.Add(1)-1, uint32(slots))) //nolint:gosec // it is small
}

// Clearer is what can be put into a room. Clear makes it as it was at first, and lets go of what it refers to.
type Clearer interface{ Clear() }

type slot struct {
	it   Clearer
	lent bool
}

// Lend gives memory for something of which most exchanges need one. It is the zero T, and lasts as long as the exchange. Who asks a
// second time has memory of his own.
func Lend[T any, P interface {
	*T
	Clearer
}](ex *Exchange, whose Slot) *T {
	if whose >= slots {
		return new(T)
	}
	r := &ex.slots[whose]
	if r.lent {
		return new(T)
	}
	r.lent = true
	if it, ok := r.it.(P); ok {
		return it
	}
	it := P(new(T))
	r.it = it
	return it
}
