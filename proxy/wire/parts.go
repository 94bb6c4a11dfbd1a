package wire

// Size is the length of the message with its edits, in bytes.
func (m *Message) Size() int {
	n := len(m.Raw)
	for i := range m.Edits {
		n += len(m.Edits[i].With) - int(m.Edits[i].To-m.Edits[i].From)
	}
	return n
}

// Parts appends the places in which the message with its edits stands, one behind the other: what Append would copy. They are
// borrowed as the message is. They are one line only if Lines is not set.
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
