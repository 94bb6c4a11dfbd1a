package wire

// Whole is the span of all of raw, which is one JSON value.
func Whole(raw []byte) Span { return Span{0, uint32(len(raw))} } //nolint:gosec // Scan refuses what does not fit

// Object writes an object with the members that have a value.
func Object(members []Change) []byte {
	m := Message{Raw: []byte("{}")}
	m.EditObject(m.Whole(), members)
	return m.Append(nil)
}

// Without copies an object without the given members; nil if raw is empty.
func Without(raw []byte, keys ...string) []byte {
	if len(raw) == 0 {
		return nil
	}
	m := Message{Raw: raw}
	changes := make([]Change, len(keys))
	for i, k := range keys {
		changes[i].Key = k
	}
	m.EditObject(m.Whole(), changes)
	return m.Append(nil)
}

// Count is the number of an object's members.
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
