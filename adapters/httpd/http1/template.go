package http1

// Template holds fields that all requests of a kind have. They are laid out once.
type Template struct{ lines fieldLines }

// NewTemplate makes a Template of pairs of names and values. They are not checked, and no name may occur twice.
func NewTemplate(pairs ...string) *Template {
	t := new(Template)
	for ; len(pairs) > 1; pairs = pairs[2:] {
		appendField(&t.lines, pairs[0], pairs[1])
	}
	return t
}

// Acquire is AcquireRequest with these fields set.
func (t *Template) Acquire(method, target string, body []byte) *Request {
	r := AcquireRequest(method, target, body)
	r.fields.copy(&t.lines)
	return r
}
