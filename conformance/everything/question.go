package everything

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"

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

// needs describes each need. Forms exist since 2025-06-18, URLs and the distinction between the two since 2025-11-25. An
// elicitation capability that names neither means forms.
var needs = [...]struct{ capability, mode, since string }{
	needForm:     {"elicitation", "form", "2025-06-18"},
	needURL:      {"elicitation", "url", hasModes},
	needSampling: {"sampling", "", ""},
	needRoots:    {"roots", "", ""},
}

// hasModes is the revision that introduced the mode of an elicitation.
const hasModes = "2025-11-25"

// can reports whether the client has declared n. The capabilities recorded in the exchange take precedence over the
// message's.
func (q *query) can(n need) bool {
	caps := q.client.Caps
	if caps == nil {
		caps = q.msg.Of(q.msg.Caps)
	}
	x := needs[n]
	if len(caps) == 0 || !q.since(x.since) {
		return false
	}
	declared := wire.Get(caps, whole(caps), x.capability)
	switch {
	case !declared.IsObject(caps) || x.mode == "":
		return declared.IsObject(caps)
	case wire.Get(caps, declared, x.mode).Present():
		return true
	}
	return n == needForm && !wire.Get(caps, declared, needs[needURL].mode).Present()
}

// undeclared returns the needs of the questions that the client has not declared.
func (q *query) undeclared(asked []question) (missing []need) {
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
			pairs = append(pairs, capability, object(m...))
		}
	}
	return object(pairs...)
}

// question is a request to the client.
type question struct {
	key    string // its name in inputRequests
	method string
	need   need
	body   string // members of params that all revisions have, raw JSON without the braces; may be empty
	since  string // first legacy revision that has everything in body; empty for all
}

const (
	elicits   = "elicitation/create"
	samples   = "sampling/createMessage"
	asksRoots = "roots/list"
)

// form asks the user to fill in a form. schema holds pairs of names and schemas; all fields are required.
func form(key, message string, schema ...string) question {
	var names []string
	for i := 0; i < len(schema); i += 2 {
		names = append(names, quote(schema[i]))
	}
	return formOf(key, message, object("type", `"object"`, "properties", object(schema...), "required", "["+strings.Join(names, ",")+"]"))
}

// formOf asks the user to fill in a form of the given schema.
func formOf(key, message, schema string) question {
	return question{key: key, method: elicits, need: needForm, body: `"message":` + quote(message) + `,"requestedSchema":` + schema, since: ""}
}

// visit asks the user to open a URL.
func visit(key, message, url string) question {
	return question{key: key, method: elicits, need: needURL, body: `"message":` + quote(message) + `,"url":` + quote(url), since: ""}
}

// generate asks the client's model.
func generate(key, prompt, maxTokens string) question {
	return question{key: key, method: samples, need: needSampling, since: "", body: `"messages":[{"role":"user","content":` +
		textBlock(prompt) + `}],"maxTokens":` + maxTokens}
}

// whereabouts asks for the client's roots.
func whereabouts(key string) question {
	return question{key: key, method: asksRoots, need: needRoots, body: "", since: ""}
}

// params returns the question's params in the client's revision. id is the elicitationId, which only 2025-11-25 has, and
// only for URLs.
func (a *question) params(q *query, id string) string {
	body := a.body
	if a.method == elicits && q.since(hasModes) {
		body = `"mode":` + quote(needs[a.need].mode) + `,` + body
	}
	if id != "" {
		body += `,"elicitationId":` + quote(id)
	}
	return "{" + body + "}"
}

// fits reports whether a value can be an answer to the question.
func (a *question) fits(raw []byte) bool {
	if len(raw) == 0 || raw[0] != '{' {
		return false
	}
	all := whole(raw)
	switch a.method {
	case elicits:
		action := wire.Get(raw, all, "action")
		return action.Is(raw, "accept") || action.Is(raw, "decline") || action.Is(raw, "cancel")
	case samples:
		content := wire.Get(raw, all, "content")
		return content.IsObject(raw) || isArray(raw, content)
	default:
		return isArray(raw, wire.Get(raw, all, "roots"))
	}
}

func isArray(raw []byte, at wire.Span) bool { return at.Present() && raw[at.From] == '[' }

// action returns the user's choice: accept, decline or cancel.
func (got answers) action(key string) string {
	raw := got[key]
	return string(wire.Get(raw, whole(raw), "action").Text(raw))
}

// decided returns the user's choice and the content of the form.
func (got answers) decided(key string) string {
	raw := got[key]
	content := wire.Get(raw, whole(raw), "content").Of(raw)
	if content == nil {
		content = []byte("{}")
	}
	return "action=" + got.action(key) + ", content=" + string(content)
}

// field returns the value of one field of a form; the user's choice if there is none.
func (got answers) field(key, name string) string {
	raw := got[key]
	v := wire.Path(raw, whole(raw), "content", name)
	switch {
	case !v.Present():
		return got.action(key)
	case v.IsString(raw):
		return string(v.Text(raw))
	}
	return string(v.Of(raw))
}

// spoken returns the model's answer. Its content is a block or, since 2025-11-25, several.
func (got answers) spoken(key string) string {
	raw := got[key]
	content := wire.Get(raw, whole(raw), "content")
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

// uris returns the URIs of the roots.
func (got answers) uris(key string) string {
	raw := got[key]
	var all []string
	for _, root := range wire.Items(raw, wire.Get(raw, whole(raw), "roots")) {
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
