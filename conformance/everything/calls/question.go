package calls

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"

	"dragoman/adapters/rules"
	"dragoman/conformance/everything/content"
	"dragoman/proxy/wire"
)

// need is a capability that a client must declare for a question.
type need uint8

const (
	needForm need = iota
	needURL
	needSampling
	needRoots
)

// needs describes each need. An elicitation capability that names neither mode means forms.
var needs = [...]struct {
	capability, mode string
	since            rules.Feature
}{
	needForm:     {"elicitation", "form", rules.Elicitation},
	needURL:      {"elicitation", "url", rules.URLMode},
	needSampling: {"sampling", "", rules.Feature{}},
	needRoots:    {"roots", "", rules.Feature{}},
}

// CanAsk reports whether the client has declared the capability for a question.
func (q *Query) CanAsk(a Question) bool { return q.can(a.need) }

// can reports whether the client has declared n. The capabilities recorded in the exchange take precedence over the
// message's.
func (q *Query) can(n need) bool {
	caps := q.Client.Caps
	if caps == nil {
		caps = q.Msg.Of(q.Msg.Caps)
	}
	x := needs[n]
	if len(caps) == 0 || !q.Has(x.since) {
		return false
	}
	declared := wire.Get(caps, content.Whole(caps), x.capability)
	switch {
	case !declared.IsObject(caps) || x.mode == "":
		return declared.IsObject(caps)
	case wire.Get(caps, declared, x.mode).Present():
		return true
	}
	return n == needForm && !wire.Get(caps, declared, needs[needURL].mode).Present()
}

// undeclared returns the needs of the questions that the client has not declared.
func (q *Query) undeclared(asked []Question) (missing []need) {
	for _, a := range asked {
		if !q.can(a.need) && !slices.Contains(missing, a.need) {
			missing = append(missing, a.need)
		}
	}
	return missing
}

// named returns the needs in words.
func named(all []need) string {
	words := make([]string, len(all))
	for i, n := range all {
		words[i] = strings.TrimSuffix(needs[n].capability+"."+needs[n].mode, ".")
	}
	return strings.Join(words, ", ")
}

// capabilities returns the needs as a ClientCapabilities object.
func capabilities(all []need) string {
	modes := map[string][]string{}
	for _, n := range all {
		modes[needs[n].capability] = append(modes[needs[n].capability], needs[n].mode, "{}")
	}
	var pairs []string
	for _, capability := range [...]string{"elicitation", "sampling", "roots"} {
		switch m := modes[capability]; {
		case m == nil:
		case m[0] == "":
			pairs = append(pairs, capability, "{}")
		default:
			pairs = append(pairs, capability, content.Object(m...))
		}
	}
	return content.Object(pairs...)
}

// Question is a request to the client.
type Question struct {
	key    string // its name in inputRequests
	method string
	need   need
	body   string // members of params that all revisions have, raw JSON without the braces; may be empty
	Since  string // first legacy revision that has everything in body; empty for all
}

const (
	elicits   = "elicitation/create"
	samples   = "sampling/createMessage"
	asksRoots = "roots/list"
)

// AskForm asks the user to fill in a form. schema holds pairs of names and schemas; all fields are required.
func AskForm(key, message string, schema ...string) Question {
	var names []string
	for i := 0; i < len(schema); i += 2 {
		names = append(names, content.Quote(schema[i]))
	}
	return AskFormOf(key, message, content.Object("type", `"object"`, "properties", content.Object(schema...), "required", "["+strings.Join(names, ",")+"]"))
}

// AskFormOf asks the user to fill in a form of the given schema.
func AskFormOf(key, message, schema string) Question {
	return Question{key: key, method: elicits, need: needForm, body: `"message":` + content.Quote(message) + `,"requestedSchema":` + schema}
}

// AskURL asks the user to open a URL.
func AskURL(key, message, url string) Question {
	return Question{key: key, method: elicits, need: needURL, body: `"message":` + content.Quote(message) + `,"url":` + content.Quote(url)}
}

// AskModel asks the client's model.
func AskModel(key, prompt, maxTokens string) Question {
	return Question{key: key, method: samples, need: needSampling, body: `"messages":[{"role":"user","content":` +
		content.Text(prompt) + `}],"maxTokens":` + maxTokens}
}

// AskRoots asks for the client's roots.
func AskRoots(key string) Question {
	return Question{key: key, method: asksRoots, need: needRoots}
}

// params returns the question's params in the client's revision. id is the elicitationId, which only 2025-11-25 has, and
// only for URLs.
func (a *Question) params(q *Query, id string) string {
	body := a.body
	if a.method == elicits && q.Has(rules.URLMode) {
		body = `"mode":` + content.Quote(needs[a.need].mode) + `,` + body
	}
	if id != "" {
		body += `,"elicitationId":` + content.Quote(id)
	}
	return "{" + body + "}"
}

// fits reports whether a value can be an answer to the question.
func (a *Question) fits(raw []byte) bool {
	if len(raw) == 0 || raw[0] != '{' {
		return false
	}
	all := content.Whole(raw)
	switch a.method {
	case elicits:
		action := wire.Get(raw, all, "action")
		return action.Is(raw, "accept") || action.Is(raw, "decline") || action.Is(raw, "cancel")
	case samples:
		said := wire.Get(raw, all, "content")
		return said.IsObject(raw) || content.IsArray(raw, said)
	default:
		return content.IsArray(raw, wire.Get(raw, all, "roots"))
	}
}

// Answers holds the results of questions, raw JSON, by key.
type Answers map[string][]byte

// Action returns the user's choice: accept, decline or cancel.
func (got Answers) Action(key string) string {
	raw := got[key]
	return string(wire.Get(raw, content.Whole(raw), "action").Text(raw))
}

// Decided returns the user's choice and the content of the form.
func (got Answers) Decided(key string) string {
	raw := got[key]
	content := wire.Get(raw, content.Whole(raw), "content").Of(raw)
	if content == nil {
		content = []byte("{}")
	}
	return "action=" + got.Action(key) + ", content=" + string(content)
}

// Field returns the value of one field of a form; the user's choice if there is none.
func (got Answers) Field(key, name string) string {
	raw := got[key]
	v := wire.Path(raw, content.Whole(raw), "content", name)
	switch {
	case !v.Present():
		return got.Action(key)
	case v.IsString(raw):
		return string(v.Text(raw))
	}
	return string(v.Of(raw))
}

// Spoken returns the model's answer. Its content is a block or, since 2025-11-25, several.
func (got Answers) Spoken(key string) string {
	raw := got[key]
	content := wire.Get(raw, content.Whole(raw), "content")
	if content.IsObject(raw) {
		return said(raw, content)
	}
	var parts []string
	for _, block := range wire.Items(raw, content) {
		parts = append(parts, said(raw, block))
	}
	return strings.Join(parts, " ")
}

func said(raw []byte, block wire.Span) string {
	if text := wire.Get(raw, block, "text"); text.IsString(raw) {
		return string(text.Text(raw))
	}
	return "(" + string(wire.Get(raw, block, "type").Text(raw)) + ")"
}

// URIs returns the URIs of the roots.
func (got Answers) URIs(key string) string {
	raw := got[key]
	var all []string
	for _, root := range wire.Items(raw, wire.Get(raw, content.Whole(raw), "roots")) {
		all = append(all, string(wire.Get(raw, root, "uri").Text(raw)))
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

// uuid returns a random UUID (RFC 9562, version 4).
func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	x := hex.EncodeToString(b[:])
	return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:]
}
