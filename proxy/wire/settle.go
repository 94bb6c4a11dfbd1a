package wire

import (
	"bytes"
	"math"
)

// Settle applies the edits, so that the objects of the message may be edited again. The message then borrows the returned slice, which is buf
// or its replacement. It fails if the result is no message.
//
// The result is scanned, unless all edits put one string in the place of another in the params or the result, as those of names do: that only
// moves the rest.
func (m *Message) Settle(buf []byte) ([]byte, error) {
	if len(m.Edits) == 0 {
		return buf, nil
	}
	buf = m.Append(buf[:0])
	edits := m.Edits[:0]
	if m.renames() && uint64(len(buf)) <= math.MaxUint32 {
		m.move()
		m.Raw, m.Edits = buf, edits
		return buf, nil
	}
	next, err := Scan(buf)
	if err != nil {
		return buf, err
	}
	next.Edits = edits
	*m = next
	return buf, nil
}

// renames reports whether each edit puts a string in the place of another that is a value in the params or the result.
func (m *Message) renames() bool {
	for i := range m.Edits {
		e := &m.Edits[i]
		if !m.Params.holds(e.Span) && !m.Result.holds(e.Span) || e.From == e.To || m.Raw[e.From] != '"' || len(e.With) < 2 || e.With[0] != '"' {
			return false
		}
		if m.Raw[SkipSpace(m.Raw, e.To)] == ':' { // the name of a member
			return false
		}
	}
	return true
}

// move moves all positions to where they are once the edits are applied.
func (m *Message) move() {
	for i := len(m.Edits) - 1; i >= 0; i-- { // the last first, so that the positions of the others are still those of Raw
		e := &m.Edits[i]
		by := uint32(len(e.With)) - (e.To - e.From) //nolint:gosec // see Settle; the arithmetic is modulo 2³²
		for _, s := range m.positions() {
			if s.To < e.To {
				continue // before it, or absent
			}
			s.To += by
			if s.From >= e.To {
				s.From += by
			}
		}
		m.plain = m.plain && bytes.IndexByte(e.With, '\\') < 0
	}
}

// positions returns the positions of all values.
func (m *Message) positions() [34]*Span {
	return [...]*Span{
		&m.ID, &m.Method, &m.Params, &m.Result, &m.Error,
		&m.Name, &m.URI, &m.TaskID, &m.Arguments, &m.Cursor, &m.Level, &m.RequestID, &m.ProgressToken, &m.InputResponses, &m.ReqState, &m.Task,
		&m.ParamsVersion, &m.ParamsCaps, &m.ParamsInfo, &m.Notifications, &m.Meta,
		&m.Token, &m.Version, &m.Caps, &m.Info, &m.LogLevel, &m.Subscription, &m.Server, &m.ResultType, &m.InputRequests, &m.IsError, &m.Structured,
		&m.ErrorText, &m.ErrorData,
	}
}
