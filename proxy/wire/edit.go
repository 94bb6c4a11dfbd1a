package wire

import (
	"bytes"
	"io"
	"slices"
)

// Edit is a change to a message: With replaces the Span. An empty Span (From == To) inserts.
type Edit struct {
	Span
	With []byte // borrowed until the message is written
}

// Change is a change to one member of an object: set it to Value, or drop it if Value is nil.
type Change struct {
	Key   string // as written between the quotes; must need no escaping
	Value []byte // JSON; borrowed until the message is written
}

// Replace records that with replaces the value at s. Each value may be edited once.
func (m *Message) Replace(s Span, with []byte) { m.add(Edit{s, with}) }

// add keeps the edits ordered by position, and those of one position in the order of the calls.
func (m *Message) add(e Edit) {
	i := len(m.Edits)
	for i > 0 && m.Edits[i-1].From > e.From {
		i--
	}
	m.Edits = append(m.Edits, Edit{})
	copy(m.Edits[i+1:], m.Edits[i:])
	m.Edits[i] = e
}

// EditObject records changes to the members of the object at obj. Named members get their new value or are dropped, absent ones are
// added at the end, and all others stay unchanged. It may be called once for an object; Settle allows it again.
func (m *Message) EditObject(obj Span, changes []Change) {
	var done uint64 // a bit for each change already applied; more than 64 changes are not supported
	kept := obj.From + 1
	stays := false // a member stays before the next one
	for key, value := range Members(m.Raw, obj) {
		i := changeOf(m.Raw, key, changes)
		if i < 0 || changes[i].Value != nil && done&(1<<i) == 0 {
			if i >= 0 {
				m.add(Edit{value, changes[i].Value})
				done |= 1 << i
			}
			stays, kept = true, value.To
			continue
		}
		done |= 1 << i
		m.drop(kept, key, value)
	}
	for i, c := range changes {
		if c.Value == nil || done&(1<<i) != 0 {
			continue
		}
		added := make([]byte, 0, len(c.Key)+len(c.Value)+4)
		if stays {
			added = append(added, ',')
		}
		stays = true
		added = append(append(append(added, '"'), c.Key...), '"', ':')
		m.add(Edit{Span{obj.To - 1, obj.To - 1}, append(added, c.Value...)})
	}
}

// drop removes a member together with one comma: the one after it, or, for the last member, the one before it and everything dropped
// since the last member that stays.
func (m *Message) drop(kept uint32, key, value Span) {
	if next := SkipSpace(m.Raw, value.To); m.Raw[next] == ',' {
		m.add(Edit{Span{key.From, SkipSpace(m.Raw, next+1)}, nil})
		return
	}
	m.Edits = slices.DeleteFunc(m.Edits, func(e Edit) bool {
		return e.With == nil && e.From >= kept && e.To <= key.From
	})
	m.add(Edit{Span{kept, value.To}, nil})
}

func changeOf(raw []byte, key Span, changes []Change) int {
	for i := range changes {
		if key.Is(raw, changes[i].Key) {
			return i
		}
	}
	return -1
}

// Append appends the message with its edits.
func (m *Message) Append(dst []byte) []byte {
	at := uint32(0)
	for i := range m.Edits {
		e := &m.Edits[i]
		dst = append(dst, m.Raw[at:e.From]...)
		dst = append(dst, e.With...)
		at = e.To
	}
	return append(dst, m.Raw[at:]...)
}

// AppendPart appends the value at s with its edits.
func (m *Message) AppendPart(dst []byte, s Span) []byte {
	at := s.From
	for i := range m.Edits {
		e := &m.Edits[i]
		if !s.holds(e.Span) {
			continue
		}
		dst = append(dst, m.Raw[at:e.From]...)
		dst = append(dst, e.With...)
		at = e.To
	}
	return append(dst, m.Raw[at:s.To]...)
}

// AppendLine appends the message with its edits as one line, without a line end.
func (m *Message) AppendLine(dst []byte) []byte {
	from := len(dst)
	dst = m.Append(dst)
	if !m.OneLine() {
		flatten(dst[from:])
	}
	return dst
}

// flatten replaces line ends by spaces. In a scanned message they occur only between tokens.
func flatten(b []byte) {
	for i, c := range b {
		if c == '\n' || c == '\r' {
			b[i] = ' '
		}
	}
}

// Edited reports whether the value at s has edits.
func (m *Message) Edited(s Span) bool {
	for i := range m.Edits {
		if s.holds(m.Edits[i].Span) && s.Present() {
			return true
		}
	}
	return false
}

// Clone returns a copy that borrows nothing, with the edits applied.
func (m *Message) Clone() (Message, error) {
	if len(m.Edits) > 0 {
		return Scan(m.Append(make([]byte, 0, len(m.Raw)+64)))
	}
	c := *m
	c.Raw = bytes.Clone(m.Raw)
	return c, nil
}

// WriteOut writes the message with its edits, with one write for each piece.
func (m *Message) WriteOut(w io.Writer) error { return m.WritePart(w, m.Whole()) }

// WritePart writes the value at s with its edits, with one write for each piece.
func (m *Message) WritePart(w io.Writer, s Span) error {
	at := s.From
	for i := range m.Edits {
		e := &m.Edits[i]
		if !s.holds(e.Span) {
			continue
		}
		if _, err := w.Write(m.Raw[at:e.From]); err != nil {
			return err
		}
		if _, err := w.Write(e.With); err != nil {
			return err
		}
		at = e.To
	}
	_, err := w.Write(m.Raw[at:s.To])
	return err
}

// Whole returns the span of all of raw, which is one JSON value.
func Whole(raw []byte) Span { return Span{0, uint32(len(raw))} } //nolint:gosec // Scan refuses what does not fit

// With copies an object with changes to its members.
func With(raw []byte, changes ...Change) []byte {
	m := Message{Raw: raw}
	m.EditObject(m.Whole(), changes)
	return m.Append(nil)
}

// Object writes an object with the members that have a value.
func Object(members []Change) []byte { return With([]byte("{}"), members...) }

// Without copies an object without the given members; nil if raw is empty.
func Without(raw []byte, keys ...string) []byte {
	if len(raw) == 0 {
		return nil
	}
	changes := make([]Change, len(keys))
	for i, k := range keys {
		changes[i].Key = k
	}
	return With(raw, changes...)
}

// Count returns the number of an object's members.
func Count(raw []byte, obj Span) (n int) {
	for range Members(raw, obj) {
		n++
	}
	return n
}

// EditParams sets or drops members of a request's params, which it adds where there are none.
func (m *Message) EditParams(changes []Change) {
	if m.Params.Present() {
		m.EditObject(m.Params, changes)
		return
	}
	m.EditObject(m.Whole(), []Change{{Key: "params", Value: Object(changes)}})
}

// Size returns the length of the message with its edits, in bytes.
func (m *Message) Size() int { return m.PartSize(m.Whole()) }

// PartSize returns the length of what AppendPart appends, in bytes.
func (m *Message) PartSize(s Span) int {
	n := int(s.To - s.From)
	for i := range m.Edits {
		if e := &m.Edits[i]; s.holds(e.Span) {
			n += len(e.With) - int(e.To-e.From)
		}
	}
	return n
}

// OneLine reports whether the message with its edits has no line ends, so that Append and AppendLine are the same.
func (m *Message) OneLine() bool {
	if m.Lines {
		return false
	}
	for i := range m.Edits {
		if with := m.Edits[i].With; bytes.IndexByte(with, '\n') >= 0 || bytes.IndexByte(with, '\r') >= 0 {
			return false
		}
	}
	return true
}

// Parts appends the pieces of the message with its edits, in order: what Append would copy. They are borrowed like the message.
func (m *Message) Parts(dst [][]byte) [][]byte {
	at := uint32(0)
	for i := range m.Edits {
		e := &m.Edits[i]
		if at < e.From {
			dst = append(dst, m.Raw[at:e.From])
		}
		if len(e.With) > 0 {
			dst = append(dst, e.With)
		}
		at = e.To
	}
	return append(dst, m.Raw[at:])
}

// AppendItem appends an element to an array that is being written: dst ends with its bracket or with the element before.
func AppendItem(dst, item []byte) []byte {
	if dst[len(dst)-1] != '[' {
		dst = append(dst, ',')
	}
	return append(dst, item...)
}
