package httpd

// Usual are fields that all requests of a kind have. They are looked over and laid out once.
type Usual struct{ lines fieldLines }

// NewUsual makes a Usual of fields that are known to be right, each of another name.
func NewUsual(fields ...Header) *Usual {
	u := new(Usual)
	for _, f := range fields {
		appendField(&u.lines, f.Name, f.Value)
	}
	return u
}

// Acquire is AcquireRequest, with these fields set.
func (u *Usual) Acquire(method, target string, body []byte) *Request {
	r := AcquireRequest(method, target, body)
	r.fields.copy(&u.lines)
	return r
}

// copy makes l the same as from, in memory of its own.
func (l *fieldLines) copy(from *fieldLines) {
	l.raw, l.at = append(l.raw[:0], from.raw...), append(l.at[:0], from.at...)
	l.first, l.last, l.gaps = from.first, from.last, from.gaps
}
