package httpd

import (
	"bytes"
	"iter"

	"github.com/valyala/fasthttp"
)

// Fields are the header fields of a message, as they came: looking one up neither normalises nor copies. Those of a response are
// valid as long as the Answer is, those of a request until its handler returns. They implement proxy.Fields.
type Fields struct {
	lines fieldLines
	found [][]byte // what PeekAll has given last
}

// Peek gives the value of the first field of a name, whatever its case, without outer blanks; nil if there is none.
func (f *Fields) Peek(name string) []byte { return f.lines.get(name) }

// PeekAll gives the values of all fields of a name. The slice holds until the next call.
func (f *Fields) PeekAll(name string) [][]byte {
	f.found = f.found[:0]
	for i := f.lines.find(name); i >= 0; i = f.lines.after(name, i) {
		f.found = append(f.found, f.lines.value(i))
	}
	return f.found
}

// Only gives the value of a field that may occur once; more says that it does not.
func (f *Fields) Only(name string) (value []byte, more bool) {
	i := f.lines.find(name)
	if i < 0 {
		return nil, false
	}
	return f.lines.value(i), f.lines.after(name, i) >= 0
}

// ContentType is Peek("Content-Type").
func (f *Fields) ContentType() []byte { return f.lines.get("Content-Type") }

// Begin tells whether there is a field whose name begins with prefix, whatever its case, and goes on.
func (f *Fields) Begin(prefix string) bool {
	for i := range f.lines.at {
		p := &f.lines.at[i]
		if p.nameEnd-p.from > len(prefix) && (f.lines.raw[p.from+len(prefix)-1]^prefix[len(prefix)-1])|0x20 == 0x20 &&
			equalFold(f.lines.raw[p.from:p.from+len(prefix)], prefix) {
			return true
		}
	}
	return false
}

// All gives each field's name and value, in their order.
func (f *Fields) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for i := range f.lines.at {
			if p := &f.lines.at[i]; !yield(f.lines.raw[p.from:p.nameEnd], f.lines.value(i)) {
				return
			}
		}
	}
}

// keep makes f the header in head, whose lines are those of scanned.
func (f *Fields) keep(head []byte, scanned *fieldLines) {
	f.lines.raw = append(f.lines.raw[:0], head...)
	f.lines.at, f.lines.first = scanned.at, scanned.first
}

// borrow makes f the header in head, whose lines are those of scanned, as long as both stand.
func (f *Fields) borrow(head []byte, scanned *fieldLines) {
	f.lines.raw, f.lines.at, f.lines.first = head, scanned.at, scanned.first
}

// FieldsOf gives the fields of the request that ctx is for, as its gates have judged them: what comes behind a body in chunks is not
// among them (RFC 9110 §6.5.1).
func FieldsOf(ctx *fasthttp.RequestCtx) *Fields {
	if c := connOf(ctx); c != nil {
		return &c.talk.current.fields
	}
	f := new(Fields) // a request that no Server of this package has read
	for name, value := range ctx.Request.Header.All() {
		appendField(&f.lines, string(name), value)
	}
	return f
}

// fieldLines are fields as lines, and where in them each name and value stands.
type fieldLines struct {
	raw []byte
	at  []fieldPlace
	// first and last have, for each length that a name may have, modulo their own, the places of the first and the last such line,
	// plus one: most fields that are looked for are not there.
	first, last [32]int32
	gaps        bool // lines were removed
}

// fieldPlace is where a line, its name and its value begin and end. A removed one has no name. next is the place of the next line
// that first would lead to, plus one.
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
	l.add(p)
}

// add notes the place of a line.
func (l *fieldLines) add(p fieldPlace) {
	l.at = append(l.at, p)
	slot := (p.nameEnd - p.from) % len(l.first)
	if end := l.last[slot]; end > 0 {
		l.at[end-1].next = int32(len(l.at)) //nolint:gosec // a head has a limit
	} else {
		l.first[slot] = int32(len(l.at)) //nolint:gosec // the same
	}
	l.last[slot] = int32(len(l.at)) //nolint:gosec // the same
}

// find gives the place of the first field of a name, -1 if there is none: as for most.
func (l *fieldLines) find(name string) int {
	if next := l.first[len(name)%len(l.first)]; next != 0 {
		return l.search(name, next)
	}
	return -1
}

// after gives the place of the next field of a name behind the one at i, -1 if there is none.
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
	if l.first[len(name)%len(l.first)] != 0 {
		l.remove(name)
	}
}

func (l *fieldLines) remove(name string) {
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

// place says where the name and the value of the line from at to end, CRLF included, stand.
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
