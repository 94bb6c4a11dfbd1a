package wire

import "bytes"

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
