package hook

import (
	"crypto/sha256"
	"fmt"
	"strconv"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// version is that of the questions' input. New members do not change it.
const version = 1

// Bounds of the parts of a question, in bytes of JSON. Together they are below 64 KiB.
const (
	maxName        = 3 << 10 // of a tool, prompt, resource or task
	maxIdentity    = 1 << 10 // of the principal, and of each of some other texts
	maxScopes      = 4 << 10
	maxAnnotations = 2 << 10
	maxText        = 8 << 10  // of a text in the arguments or the result, without escapes
	maxShown       = 11 << 10 // of either, from which on nothing more is shown
	maxContent     = 20 << 10 // of either, by which a last text and escapes may exceed that; beyond it nothing at all is shown
	maxRead        = 1 << 20  // of either as it came; likewise
)

// question is what is asked about a request and its result.
type question struct {
	about         []byte // members that all phases have in common
	cut           bool   // some of about did not fit
	correlationID string
	unasked       string // why nobody can be asked; empty: somebody can
}

// body is a question as it is sent.
type body struct {
	phase string
	text  []byte
	same  int // so many bytes of it are the same in equal questions
}

func (b *body) sum() key { return sha256.Sum256(b.text[:b.same]) }

// body makes the question of a phase, with further members about that.
func (q *question) body(phase string, also ...byte) body {
	b := make([]byte, 0, len(q.about)+len(also)+128)
	b = strconv.AppendInt(append(b, `{"input":{"version":`...), version, 10)
	b = append(append(append(b, `,"phase":"`...), phase...), '"')
	b = append(append(b, q.about...), also...)
	b = strconv.AppendBool(append(b, `,"cut":`...), q.cut)
	same := len(b)
	b = wire.AppendText(append(b, `,"correlationId":`...), q.correlationID)
	return body{phase, append(b, "}}"...), same}
}

// question describes a request.
func (h *Hook) question(ex *proxy.Exchange, server string, annotations func(tool []byte) []byte) *question {
	q := &question{about: make([]byte, 0, 512), correlationID: ex.ID()}
	q.who(ex)
	m := &ex.Msg
	q.text("server", []byte(server), maxIdentity)
	q.text("method", m.Text(m.Method), maxIdentity)
	kind, at := subject(m)
	name := m.Text(at)
	q.text(kind, name, maxName)
	switch {
	case kind == bothNames:
		q.unasked = "its reference has both a name and a URI"
	case !at.IsString(m.Raw):
		q.unasked = "its " + kind + " is no text"
	}
	if len(ex.PublicName) > 0 {
		q.text("publicName", ex.PublicName, maxName)
	}
	if kind == "tool" {
		q.annotations(annotations(name))
	}
	q.arguments(h, m)
	return q
}

// who appends the caller and its client.
func (q *question) who(ex *proxy.Exchange) {
	q.orNull("principal", ex.Caller.Principal)
	kind, user := "", ""
	var scopes []string
	if r := ex.Caller.Rights; r != nil {
		kind, user, scopes = r.Kind, r.Name, r.Scopes
	}
	q.orNull("credential", kind)
	q.orNull("user", user)
	q.about = append(q.about, `,"scopes":[`...)
	from := len(q.about)
	for i, scope := range scopes {
		if i > 0 {
			q.about = append(q.about, ',')
		}
		q.about = wire.AppendText(q.about, scope)
	}
	if len(q.about)-from > maxScopes {
		q.unasked = "the scopes of the caller do not fit into a question"
	}
	q.about = append(q.about, `],"client":{"era":"`...)
	q.about = append(append(q.about, ex.Client.Era.String()...), `","revision":`...)
	q.about = wire.AppendShown(q.about, ex.Client.Version)
	q.about = append(q.about, `,"name":`...)
	if info := ex.Client.Info; len(info) > 0 {
		q.about = wire.AppendShown(q.about, wire.Get(info, wire.Whole(info), "name").Text(info))
	} else {
		q.about = append(q.about, "null"...)
	}
	q.about = append(q.about, '}')
}

// member appends the name of a member.
func (q *question) member(name string) {
	q.about = append(append(append(q.about, `,"`...), name...), `":`...)
}

// text appends a text in full: by a part of it, a policy would take it for another. If it is too long, nobody can be asked.
func (q *question) text(name string, text []byte, most int) {
	q.member(name)
	if len(text) <= most {
		from := len(q.about)
		if q.about = wire.AppendText(q.about, text); len(q.about)-from <= most {
			return
		}
	}
	q.unasked = "its " + name + " does not fit into a question"
}

func (q *question) orNull(name, text string) {
	if text == "" {
		q.member(name)
		q.about = append(q.about, "null"...)
		return
	}
	q.text(name, []byte(text), maxIdentity)
}

// annotations appends what a tool says of itself; null if that is unknown, or does not fit.
func (q *question) annotations(raw []byte) {
	q.member("annotations")
	switch {
	case len(raw) > maxAnnotations:
		q.cut = true
		fallthrough
	case len(raw) == 0:
		raw = []byte("null")
	}
	q.about = append(q.about, raw...)
}

// arguments appends the arguments of a request. If a member stands in them twice, nobody can be asked: a policy and a server may read one of
// the two each.
func (q *question) arguments(h *Hook, m *wire.Message) {
	if !m.Arguments.Present() {
		return
	}
	shown, cut := h.shown("arguments", "argumentKeys", m.Raw, m.Arguments)
	if h.ambiguous(shown) {
		q.unasked = "its arguments have a member twice"
	}
	q.about, q.cut = append(q.about, shown...), q.cut || cut
}

// shown returns a value of a peer as a member with a comma before it, as much of it as questions have, in at most maxContent bytes.
func (h *Hook) shown(all, keys string, raw []byte, s wire.Span) (b []byte, cut bool) {
	if s.To-s.From <= maxRead {
		if b, cut = h.opt.Arguments.Append(nil, all, keys, raw, s); len(b) <= maxContent {
			return b, cut
		}
	}
	switch h.opt.Arguments.What {
	case policies.ArgumentsNone, "":
		return nil, false
	case policies.ArgumentsKeys:
		return fmt.Appendf(nil, `,%q:["[cut]"]`, keys), true
	}
	return fmt.Appendf(nil, `,%q:"[cut]"`, all), true
}

// ambiguous reports whether what shown has returned has a member twice.
func (h *Hook) ambiguous(shown []byte) bool {
	if len(shown) == 0 {
		return false
	}
	raw := append(append([]byte{'{'}, shown[1:]...), '}')
	if h.opt.Arguments.What != policies.ArgumentsKeys {
		return repeats(raw, wire.Whole(raw))
	}
	seen := map[string]bool{}
	for _, names := range wire.Members(raw, wire.Whole(raw)) {
		for _, name := range wire.Items(raw, names) {
			if twice(seen, raw, name) {
				return true
			}
		}
	}
	return false
}

// repeats reports whether an object within a value has a member twice.
func repeats(raw []byte, s wire.Span) bool {
	seen := map[string]bool{}
	for key, value := range wire.Members(raw, s) {
		if twice(seen, raw, key) || repeats(raw, value) {
			return true
		}
	}
	if raw[s.From] == '[' {
		for _, item := range wire.Items(raw, s) {
			if repeats(raw, item) {
				return true
			}
		}
	}
	return false
}

// twice reports whether a name was seen before.
func twice(seen map[string]bool, raw []byte, name wire.Span) bool {
	text := string(name.Text(raw))
	before := seen[text]
	seen[text] = true
	return before
}

// bothNames is the kind of what a completion is about that names a prompt and a resource.
const bothNames = "reference"

// subject returns where a request has what it is about, by the server's own name, and its kind. The span may be absent, or no text.
func subject(m *wire.Message) (kind string, at wire.Span) {
	switch {
	case m.Is("tools/call"):
		return "tool", m.Name
	case m.Is("prompts/get"):
		return "prompt", m.Name
	case m.Is("completion/complete"):
		ref := wire.Get(m.Raw, m.Params, "ref")
		prompt, resource := wire.Get(m.Raw, ref, "name"), wire.Get(m.Raw, ref, "uri")
		switch {
		case !resource.Present():
			return "prompt", prompt
		case prompt.Present(): // a server may go by either
			return bothNames, wire.Span{}
		}
		return "resource", resource
	case m.TaskID.Present():
		return "task", m.TaskID
	}
	return "resource", m.URI
}
