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
	for i := f.lines.find(name, 0); i >= 0; i = f.lines.find(name, i+1) {
		f.found = append(f.found, f.lines.value(i))
	}
	return f.found
}

// Only gives the value of a field that may occur once; more says that it does not.
func (f *Fields) Only(name string) (value []byte, more bool) {
	i := f.lines.find(name, 0)
	if i < 0 {
		return nil, false
	}
	return f.lines.value(i), f.lines.find(name, i+1) >= 0
}

// ContentType is Peek("Content-Type").
func (f *Fields) ContentType() []byte { return f.lines.get("Content-Type") }

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
	f.lines.at, f.lines.lengths = scanned.at, scanned.lengths
}

// FieldsOf gives the fields of the request that ctx is for, as they were when its gates judged it: what fasthttp adds behind a
// body in chunks is not among them (RFC 9110 §6.5.1).
func FieldsOf(ctx *fasthttp.RequestCtx) *Fields {
	if c := connOf(ctx); c != nil {
		return &c.fields
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
	// lengths has a bit for each length that a name has, modulo 64: most fields that are looked for are not there.
	lengths uint64
}

// fieldPlace is where a line, its name and its value begin and end. A removed one has no name.
type fieldPlace struct{ from, nameEnd, value, valueEnd, end int }

func (l *fieldLines) reset() { l.raw, l.at, l.lengths = l.raw[:0], l.at[:0], 0 }

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
	l.lengths |= 1 << ((p.nameEnd - p.from) & 63)
}

// find gives the place of the first field of a name at or behind from; -1: there is none.
func (l *fieldLines) find(name string, from int) int {
	if l.lengths&(1<<(len(name)&63)) == 0 {
		return -1
	}
	for i := from; i < len(l.at); i++ {
		p := &l.at[i]
		if p.nameEnd-p.from == len(name) && equalFold(l.raw[p.from:p.nameEnd], name) {
			return i
		}
	}
	return -1
}

func (l *fieldLines) get(name string) []byte {
	if i := l.find(name, 0); i >= 0 {
		return l.value(i)
	}
	return nil
}

func (l *fieldLines) value(i int) []byte {
	p := &l.at[i]
	return l.raw[p.value:p.valueEnd:p.valueEnd]
}

func (l *fieldLines) del(name string) {
	for i := l.find(name, 0); i >= 0; i = l.find(name, i+1) {
		l.at[i].nameEnd = l.at[i].from
		l.at[i].end = -1
	}
}

func (l *fieldLines) appendTo(dst []byte) []byte {
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
