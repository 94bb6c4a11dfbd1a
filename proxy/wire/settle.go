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
		m.shift(shift{e.To, uint32(len(e.With)) - (e.To - e.From)}) //nolint:gosec // see Settle; the arithmetic is modulo 2³²
		m.plain = m.plain && bytes.IndexByte(e.With, '\\') < 0
	}
}

// shift moves what is behind a position.
type shift struct{ behind, by uint32 }

// of returns where a value is then. An absent one is before all.
func (x shift) of(s Span) Span {
	if s.To >= x.behind {
		s.To += x.by
		if s.From >= x.behind {
			s.From += x.by
		}
	}
	return s
}

// shift moves all positions. They are no list, through which it would take twice as long: this is done for each request with a name that
// differs from the server's.
func (m *Message) shift(x shift) {
	m.ID, m.Method, m.Params, m.Result, m.Error = x.of(m.ID), x.of(m.Method), x.of(m.Params), x.of(m.Result), x.of(m.Error)
	m.Name, m.URI, m.TaskID, m.Arguments = x.of(m.Name), x.of(m.URI), x.of(m.TaskID), x.of(m.Arguments)
	m.Cursor, m.Level, m.RequestID, m.ProgressToken = x.of(m.Cursor), x.of(m.Level), x.of(m.RequestID), x.of(m.ProgressToken)
	m.InputResponses, m.ReqState, m.Task = x.of(m.InputResponses), x.of(m.ReqState), x.of(m.Task)
	m.ParamsVersion, m.ParamsCaps, m.ParamsInfo = x.of(m.ParamsVersion), x.of(m.ParamsCaps), x.of(m.ParamsInfo)
	m.Notifications, m.Meta = x.of(m.Notifications), x.of(m.Meta)
	m.Token, m.Version, m.Caps, m.Info = x.of(m.Token), x.of(m.Version), x.of(m.Caps), x.of(m.Info)
	m.LogLevel, m.Subscription, m.Server = x.of(m.LogLevel), x.of(m.Subscription), x.of(m.Server)
	m.ResultType, m.InputRequests, m.IsError, m.Structured = x.of(m.ResultType), x.of(m.InputRequests), x.of(m.IsError), x.of(m.Structured)
	m.ErrorText, m.ErrorData = x.of(m.ErrorText), x.of(m.ErrorData)
}
