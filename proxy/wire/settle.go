package wire

import (
	"bytes"
	"math"
)

// Settle applies the edits, so that the objects of the message may be edited again. The message then borrows the returned slice, which is buf
// or its replacement. It fails if the result is no message.
func (m *Message) Settle(buf []byte) ([]byte, error) {
	if len(m.Edits) == 0 {
		return buf, nil
	}
	buf = m.Append(buf[:0])
	edits := m.Edits[:0]
	next, err := Scan(buf)
	if err != nil {
		return buf, err
	}
	next.Edits = edits
	*m = next
	return buf, nil
}

// Rename puts a text in the place of the string at s, as Replace and Settle would, but without another scan. The string must be a value in the
// params or the result of a message that was scanned and has no edits. The message then borrows the returned slice, which is buf or its
// replacement. Nothing changes if the message would be of 4 GiB or more.
func (m *Message) Rename(s Span, text string, buf []byte) []byte {
	buf = AppendText(append(buf[:0], m.Raw[:s.From]...), text)
	if uint64(len(buf))+uint64(len(m.Raw)) > math.MaxUint32 {
		return buf
	}
	to := uint32(len(buf)) //nolint:gosec // see above
	m.plain = m.plain && bytes.IndexByte(buf[s.From:], '\\') < 0
	m.Raw = append(buf, m.Raw[s.To:]...)
	m.shift(shift{s.To, to - s.To}) // modulo 2³²
	return m.Raw
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
