package http1

import (
	"bytes"
	"iter"
)

// Fields are the header fields of a message as received. A lookup neither normalises nor copies. How long they are valid is up to the
// owner of the message. They implement proxy.Fields.
type Fields struct {
	lines fieldLines
	found [][]byte // the last result of PeekAll
}

// Peek returns the value of the first field of a name, whatever its case, without outer blanks; nil if there is none.
func (f *Fields) Peek(name string) []byte { return f.lines.get(name) }

// PeekAll returns the values of all fields of a name. The slice is valid until the next call.
func (f *Fields) PeekAll(name string) [][]byte {
	f.found = f.found[:0]
	for i := f.lines.find(name); i >= 0; i = f.lines.after(name, i) {
		f.found = append(f.found, f.lines.value(i))
	}
	return f.found
}

// Only returns the value of a field that may occur once; more reports that it occurs more often.
func (f *Fields) Only(name string) (value []byte, more bool) {
	i := f.lines.find(name)
	if i < 0 {
		return nil, false
	}
	return f.lines.value(i), f.lines.after(name, i) >= 0
}

// ContentType is Peek("Content-Type").
func (f *Fields) ContentType() []byte { return f.lines.get("Content-Type") }

// HasPrefix reports whether the name of a field begins with prefix, whatever its case, and is longer.
func (f *Fields) HasPrefix(prefix string) bool {
	for i := range f.lines.at {
		p := &f.lines.at[i]
		if p.nameEnd-p.from > len(prefix) && (f.lines.raw[p.from+len(prefix)-1]^prefix[len(prefix)-1])|0x20 == 0x20 &&
			equalFold(f.lines.raw[p.from:p.from+len(prefix)], prefix) {
			return true
		}
	}
	return false
}

// All yields the name and value of each field in order.
func (f *Fields) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for i := range f.lines.at {
			if p := &f.lines.at[i]; !yield(f.lines.raw[p.from:p.nameEnd], f.lines.value(i)) {
				return
			}
		}
	}
}

// Copy makes f the fields of the head that r has read, in memory of its own. Their places are valid until r reads another head.
func (f *Fields) Copy(head []byte, r *HeadReader) {
	f.lines.raw = append(f.lines.raw[:0], head...)
	f.lines.at, f.lines.first = r.fields.at, r.fields.first
}

// Borrow makes f the fields of the head that r has read, as long as both are valid.
func (f *Fields) Borrow(head []byte, r *HeadReader) {
	f.lines.raw, f.lines.at, f.lines.first = head, r.fields.at, r.fields.first
}

// Rebase replaces the head of Borrow by a copy elsewhere in memory.
func (f *Fields) Rebase(head []byte) { f.lines.raw = head }

// Raw returns the head that the fields are in.
func (f *Fields) Raw() []byte { return f.lines.raw }

// Reset forgets the fields and keeps the memory of PeekAll.
func (f *Fields) Reset() { *f = Fields{found: f.found[:0]} }

// fieldLines are fields as lines, with the place of each name and value.
type fieldLines struct {
	raw []byte
	at  []fieldPlace
	// first and last hold the index, plus one, of the first and the last line of each slot (slotOf). Most fields that are looked up are
	// absent, and most of those have a slot without lines.
	first, last [32]int32
	gaps        bool // lines were removed
}

// fieldPlace holds the offsets of a line, its name and its value. A removed line has no name. next is the index of the next line of the
// same slot, plus one.
type fieldPlace struct {
	from, nameEnd, value, valueEnd, end int
	next                                int32
	special                             bool // isSpecial
}

func (l *fieldLines) reset() {
	l.raw, l.at, l.gaps = l.raw[:0], l.at[:0], false
	clear(l.first[:])
	clear(l.last[:])
}

func appendField[V string | []byte](l *fieldLines, name string, value V) {
	p := fieldPlace{from: len(l.raw)}
	l.raw = append(l.raw, name...)
	p.nameEnd = len(l.raw)
	l.raw = append(l.raw, ": "...)
	p.value = len(l.raw)
	l.raw = append(l.raw, value...)
	p.valueEnd = len(l.raw)
	l.raw = append(l.raw, "\r\n"...)
	p.end = len(l.raw)
	l.add(p, l.raw)
}

// add notes the place of a line in raw.
func (l *fieldLines) add(p fieldPlace, raw []byte) {
	l.at = append(l.at, p)
	slot := slotOf(raw[p.from:p.nameEnd])
	if end := l.last[slot]; end > 0 {
		l.at[end-1].next = int32(len(l.at)) //nolint:gosec // a head has a limit
	} else {
		l.first[slot] = int32(len(l.at)) //nolint:gosec // the same
	}
	l.last[slot] = int32(len(l.at)) //nolint:gosec // the same
}

// slotOf tells names apart by their length and their last letter.
func slotOf[S string | []byte](name S) int {
	n := len(name)
	if n == 0 {
		return 0
	}
	return (n + int(name[n-1])) & 31 // without the bit of its case
}

// find returns the index of the first field of a name, -1 if there is none.
func (l *fieldLines) find(name string) int {
	if next := l.first[slotOf(name)]; next != 0 {
		return l.search(name, next)
	}
	return -1
}

// after returns the index of the next field of a name behind i, -1 if there is none.
func (l *fieldLines) after(name string, i int) int {
	if next := l.at[i].next; next != 0 {
		return l.search(name, next)
	}
	return -1
}

func (l *fieldLines) search(name string, next int32) int {
	for i := int(next) - 1; i >= 0; i = int(l.at[i].next) - 1 {
		p := &l.at[i]
		if p.nameEnd-p.from == len(name) && len(name) > 0 && (l.raw[p.from]^name[0])|0x20 == 0x20 && equalFold(l.raw[p.from:p.nameEnd], name) {
			return i
		}
	}
	return -1
}

func (l *fieldLines) get(name string) []byte {
	if i := l.find(name); i >= 0 {
		return l.value(i)
	}
	return nil
}

func (l *fieldLines) value(i int) []byte {
	p := &l.at[i]
	return l.raw[p.value:p.valueEnd:p.valueEnd]
}

func (l *fieldLines) del(name string) {
	for i := l.find(name); i >= 0; i = l.after(name, i) {
		l.at[i].nameEnd = l.at[i].from
		l.at[i].end = -1
		l.gaps = true
	}
}

func (l *fieldLines) appendTo(dst []byte) []byte {
	if !l.gaps {
		return append(dst, l.raw...)
	}
	for i := range l.at {
		if p := &l.at[i]; p.end >= 0 {
			dst = append(dst, l.raw[p.from:p.end]...)
		}
	}
	return dst
}

// equalFold compares names of equal length without regard to case. Names are ASCII.
func equalFold(a []byte, b string) bool { return string(a) == b || bytes.EqualFold(a, []byte(b)) }

// place returns the places of the name and the value in the line from at to end, CRLF included.
func place(raw []byte, at, colon, end int) fieldPlace {
	p := fieldPlace{from: at, nameEnd: at + colon, value: at + colon + 1, valueEnd: end - 2, end: end}
	for p.value < p.valueEnd && blank(raw[p.value]) {
		p.value++
	}
	for p.valueEnd > p.value && blank(raw[p.valueEnd-1]) {
		p.valueEnd--
	}
	return p
}

func blank(b byte) bool { return b == ' ' || b == '\t' }

// copy makes l the same as from, in memory of its own.
func (l *fieldLines) copy(from *fieldLines) {
	l.raw, l.at = append(l.raw[:0], from.raw...), append(l.at[:0], from.at...)
	l.first, l.last, l.gaps = from.first, from.last, from.gaps
}
