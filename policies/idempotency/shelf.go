package idempotency

import (
	"math"
	"math/bits"
	"time"
)

// A shelf knows the requests of one kind: those that run, and the memos of those that are over, the oldest first to go. Requests of
// sessions and requests with keys have one each, so that neither kind can crowd out the other.
//
// In a busy proxy shelves are full, and between the coming and the going of a memo lie thousands of calls: whatever is looked at again
// then comes from memory, which takes longer than all that is done with it. So the oldest memo goes without being looked at. What that
// takes lies in places, one behind the other in the order in which they go; and the index, which is made of numbers, is left as it is
// until somebody is there for another name, and sees that the number is too low.
type shelf struct {
	places      []place // a power of 2 of them; a place is where its number, which no other ever gets, comes to lie in them
	first, next uint64  // the numbers of the oldest, which is not empty, and of the next to come; greater than 0 once there are places
	count       int     // of memos in places
	bytes       int     // of those

	runners []runner // of those that run, by number; 0 is nobody's
	vacant  uint32   // the first of runners that are free, by next; 0: none is
	running int

	slots []slot // the index: by tags, with open addressing; twice as many as places
	used  int    // of them, with what is stale
	shift uint   // of a tag, for its slot
}

// place is what is known of a memo that is over without looking at it.
type place struct {
	m      *memo         // nil: it is empty, since it went before others that are older
	of     *memos        // its session's; nil: it has a key
	born   time.Duration // when it was over, since the policy's beginning
	size   uint32
	before uint32 // how far before this is the place of the memo that was over before it in its session; 0: there is none
	tag    uint32
	shared bool // somebody else has found it, and may hold it for longer than it is kept
}

// runner is a request that runs.
type runner struct {
	m          *memo
	of         *memos
	prev, next uint32 // of its session; 0: none
}

// slot is a tag, which is never 0, and a number: of a runner, or as much as there is room for of a place's. 0: it is empty.
type slot uint64

const (
	runs   = 1 << 31 // in a slot: the number is a runner's
	number = runs - 1
)

// slotsInLine is how many slots lie in a cache line.
const slotsInLine = 8

// leastPlaces is a power of 2. There are twice as many slots as places.
const leastPlaces = 64

// tagOf is as much of a name as there is room for in a slot.
func tagOf(n sum) uint32 { return uint32(n[0]>>32) | 1 } //nolint:gosec // it fits

func slotOf(tag, number uint32) slot { return slot(tag)<<32 | slot(number) }

func placeNumber(at uint64) uint32 { return uint32(at & number) } //nolint:gosec // it fits

func (x slot) tag() uint32 { return uint32(x >> 32) } //nolint:gosec // it fits

func (s *shelf) place(at uint64) *place { return &s.places[at&uint64(len(s.places)-1)] }

// home is the first slot for a tag.
func (s *shelf) home(tag uint32) int { return int(tag >> s.shift) }

func (s *shelf) after(i int) int { return (i + 1) & (len(s.slots) - 1) }

// placeOf gives the number of the place that a slot is for, and whether there still is one. Where only a part of a number is left there
// may be one, of another: names tell.
func (s *shelf) placeOf(x slot) (at uint64, ok bool) {
	ahead := (uint64(x) - s.first) & number
	return s.first + ahead, x&runs == 0 && ahead < s.next-s.first
}

// find gives the memo of a name, and its slot; else nil, and the one to begin it in. What is stale on the way is cleared away.
func (s *shelf) find(n sum) (i int, m *memo) {
	if s.used >= len(s.slots)/4*3 {
		s.rebuild()
	}
	tag := tagOf(n)
	i = s.home(tag)
	if s.used > len(s.slots)/8*5 {
		s.tidy(i)
	}
	for s.slots[i] != 0 {
		x := s.slots[i]
		at, kept := s.placeOf(x)
		if !kept && x&runs == 0 {
			s.empty(i) // another may be here now
			continue
		}
		if x.tag() == tag {
			if kept {
				m = s.place(at).m
			} else {
				m = s.runners[x&number].m
			}
			if m != nil && m.name == n {
				return i, m
			}
		}
		i = s.after(i)
	}
	return i, nil
}

// tidy clears away what is stale before a slot in the same cache line, which is on few ways. Without it the slots of a full shelf would
// fill up with that, and it would have to be rebuilt every so often.
func (s *shelf) tidy(home int) {
	for i := home &^ (slotsInLine - 1); i < home; {
		x := s.slots[i]
		if _, kept := s.placeOf(x); x == 0 || kept || x&runs != 0 {
			i++
		} else {
			s.empty(i)
		}
	}
}

// share says of the memo of a slot that somebody else has found it.
func (s *shelf) share(i int) {
	if at, kept := s.placeOf(s.slots[i]); kept {
		s.place(at).shared = true
	} else {
		s.runners[s.slots[i]&number].m.shared = true
	}
}

// empty empties a slot. Those behind it that nobody would find any more move up.
func (s *shelf) empty(i int) {
	last := len(s.slots) - 1
	for j := s.after(i); s.slots[j] != 0; j = s.after(j) {
		if x := s.slots[j]; (j-s.home(x.tag()))&last >= (j-i)&last {
			s.slots[i], i = x, j
		}
	}
	s.slots[i] = 0
	s.used--
}

// search gives the slot that has this in it.
func (s *shelf) search(x slot) int {
	i := s.home(x.tag())
	for s.slots[i] != x {
		i = s.after(i)
	}
	return i
}

// enter fills an empty slot.
func (s *shelf) enter(i int, x slot) {
	s.slots[i] = x
	s.used++
}

// begin has a memo run. find has given the slot.
func (s *shelf) begin(i int, m *memo, of *memos) {
	if s.vacant == 0 {
		s.vacant = uint32(max(len(s.runners), 1)) //nolint:gosec // each is a request that somebody waits for
		s.runners = append(s.runners, make([]runner, int(s.vacant)+1-len(s.runners))...)
	}
	m.run = s.vacant
	r := &s.runners[m.run]
	s.vacant = r.next
	*r = runner{m: m, of: of}
	if of != nil {
		if r.next = of.runs; r.next != 0 {
			s.runners[r.next].prev = m.run
		}
		of.runs = m.run
	}
	s.running++
	s.enter(i, slotOf(tagOf(m.name), runs|m.run))
}

// end has a memo run no more. It gives the slot, where it still is, and the session that it is of.
func (s *shelf) end(m *memo) (i int, of *memos) {
	i = s.search(slotOf(tagOf(m.name), runs|m.run))
	r := &s.runners[m.run]
	of = r.of
	switch {
	case r.prev != 0:
		s.runners[r.prev].next = r.next
	case of != nil:
		of.runs = r.next
	}
	if r.next != 0 {
		s.runners[r.next].prev = r.prev
	}
	*r = runner{next: s.vacant}
	s.vacant, m.run = m.run, 0
	s.running--
	return i, of
}

// keep gives a memo that has run a place.
func (s *shelf) keep(m *memo, now time.Duration) {
	if s.next-s.first == uint64(len(s.places)) {
		s.rebuild()
	}
	i, of := s.end(m)
	size := min(m.size(), math.MaxUint32)
	x := place{m: m, of: of, born: now, size: uint32(size), tag: tagOf(m.name), shared: m.shared} //nolint:gosec // it fits
	s.slots[i] = slotOf(x.tag, placeNumber(s.put(x)))
	s.count++
	s.bytes += size
}

// put fills the next place.
func (s *shelf) put(x place) (at uint64) {
	at = s.next
	x.before = 0
	if x.of != nil {
		if x.of.last >= s.first {
			x.before = uint32(at - x.of.last) //nolint:gosec // there are fewer places
		}
		x.of.last = at
	}
	*s.place(at) = x
	s.next++
	return at
}

// take takes the memo out of a place.
func (s *shelf) take(at uint64) place {
	p := s.place(at)
	x := *p
	*p = place{before: x.before}
	s.count--
	s.bytes -= int(x.size)
	if at != s.first {
		s.empty(s.search(slotOf(x.tag, placeNumber(at))))
		return x
	}
	for s.first++; s.first < s.next && s.place(s.first).m == nil; {
		s.first++
	}
	return x
}

// letGo gives back most of the memory of a shelf that nothing is on.
func (s *shelf) letGo() {
	if s.count == 0 && len(s.places) > leastPlaces {
		s.rebuild()
	}
}

// rebuild has as many places and slots as are needed for what there is and half as much again, and leaves out what is empty or stale.
// There are about as many calls until the next one as it moves memos.
func (s *shelf) rebuild() {
	n := leastPlaces
	for 2*n < 3*(s.count+s.running) {
		n *= 2
	}
	old := s.places
	if n != len(old) {
		s.places, s.slots = make([]place, n), make([]slot, 2*n)
		s.shift = uint(33 - bits.Len(uint(2*n))) //nolint:gosec // neither is negative
	} else {
		clear(s.slots)
	}
	s.used = 0
	from, to := s.first, s.next
	s.first = max(to, 1) // numbers go on, so that those that sessions know mean nothing any more
	s.next = s.first
	for ; from < to; from++ {
		p := &old[from&uint64(len(old)-1)]
		x := *p
		*p = place{} // first: where the places stay, it is here or before here that x is put
		if x.m != nil {
			s.index(slotOf(x.tag, placeNumber(s.put(x))))
		}
	}
	if s.running == 0 {
		s.runners, s.vacant = nil, 0
	}
	for i, r := range s.runners {
		if r.m != nil {
			s.index(slotOf(tagOf(r.m.name), runs|uint32(i))) //nolint:gosec // as in begin
		}
	}
}

// index enters what is not there yet.
func (s *shelf) index(x slot) {
	i := s.home(x.tag())
	for s.slots[i] != 0 {
		i = s.after(i)
	}
	s.enter(i, x)
}
