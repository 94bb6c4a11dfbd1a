package era

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"dragoman/adapters/rules"
	"dragoman/proxy/wire"
)

// gen makes random JSON and keeps its parts, so that expected results need no parser.
type gen struct {
	*rand.Rand
	n int // for names that occur once
}

func newGen(seed uint64) *gen { return &gen{Rand: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))} }

func (g *gen) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *gen, of ...T) T { return of[g.IntN(len(of))] }

// pair is a member of an object: its name, decoded and raw, and its raw value.
type pair struct{ key, name, value string }

// obj is an object, its members in order.
type obj []pair

func quote(s string) string { return string(wire.AppendText(nil, s)) }

func mem(key, value string) pair { return pair{key, quote(key), value} }

func (o obj) find(key string) int {
	return slices.IndexFunc(o, func(m pair) bool { return m.key == key })
}

func (o obj) has(key string) bool { return o.find(key) >= 0 }

// without returns a copy without these keys.
func (o obj) without(keys ...string) obj {
	return slices.DeleteFunc(slices.Clone(o), func(m pair) bool { return slices.Contains(keys, m.key) })
}

// with returns a copy in which key has this value: in its place, or at the end.
func (o obj) with(key, value string) obj {
	out := slices.Clone(o)
	if i := out.find(key); i >= 0 {
		out[i].value = value
		return out
	}
	return append(out, mem(key, value))
}

// filled returns a copy that has a value for key: its own, or else the given one at the end.
func (o obj) filled(key, value string) obj {
	if o.has(key) {
		return o
	}
	return o.with(key, value)
}

// text writes the object without spaces.
func (o obj) text() string {
	parts := make([]string, len(o))
	for i, m := range o {
		parts[i] = m.name + ":" + m.value
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// shuffled returns the members in another order.
func (g *gen) shuffled(o obj) obj {
	out := slices.Clone(o)
	g.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// spaced adds space between the tokens, with lines also line ends.
func (g *gen) spaced(text string, lines bool) []byte {
	if g.chance(50) {
		return []byte(text)
	}
	space := func() string {
		if lines {
			return pick(g, "", "", " ", "\t", "\r\n ", "\n")
		}
		return pick(g, "", "", " ", "\t")
	}
	var out []byte
	inside := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case inside && c == '\\':
			out = append(out, c, text[i+1])
			i++
			continue
		case c == '"':
			inside = !inside
		case !inside && strings.IndexByte("{}[],:", c) >= 0:
			out = append(append(append(out, space()...), c), space()...)
			continue
		}
		out = append(out, c)
	}
	return out
}

// compact removes the space between tokens.
func compact(raw []byte) string {
	out := make([]byte, 0, len(raw))
	inside := false
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case inside && c == '\\':
			out = append(out, c, raw[i+1])
			i++
			continue
		case c == '"':
			inside = !inside
		case !inside && bytes.IndexByte([]byte(" \t\r\n"), c) >= 0:
			continue
		}
		out = append(out, c)
	}
	return string(out)
}

// words makes text that needs escapes.
func (g *gen) words() string {
	var b strings.Builder
	for range g.IntN(4) {
		b.WriteString(pick(g, "a", "zweiß", "日本", "🙂", "\"", "\\", "}]", " ", "\n", "\u2028", "/", "\x7f", "\u0001", "é", "io.modelcontextprotocol/"))
	}
	return b.String()
}

// str makes a string with unnecessary escapes.
func (g *gen) str() string { return g.written(g.words()) }

// written writes text in one of the possible ways.
func (g *gen) written(text string) string {
	if g.chance(60) {
		return quote(text)
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r > 0xffff && g.chance(50):
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04X`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		case r < 0xffff && (r < 0x20 || g.chance(30)):
			fmt.Fprintf(&b, `\u%04x`, r)
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '/' && g.chance(50):
			b.WriteString(`\/`)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func (g *gen) num() string {
	return pick(g, "0", "-0", "1", "9007199254740993", "-9223372036854775808", "123456789012345678901234567890", "1.0", "-1.5E-7", "1e400", "0.1")
}

// value makes any JSON value.
func (g *gen) value(depth int) string {
	switch k := g.IntN(9); {
	case k < 2 && depth > 0:
		return g.object(depth - 1).text()
	case k < 4 && depth > 0:
		var items []string
		for range g.IntN(4) {
			items = append(items, g.value(depth-1))
		}
		return "[" + strings.Join(items, ",") + "]"
	case k < 6:
		return g.num()
	case k == 6:
		return pick(g, "true", "false", "null")
	}
	return g.str()
}

// object makes an object of unknown members.
func (g *gen) object(depth int) obj {
	var o obj
	for range g.IntN(4) {
		o = append(o, g.unknown(depth))
	}
	return o
}

func (g *gen) unknown(depth int) pair {
	g.n++
	key := "x-" + strconv.Itoa(g.n) + g.words()
	return pair{key, g.written(key), g.value(depth)}
}

// id makes a request id or progress token: a number or a string, possibly large or unusual, and unique.
func (g *gen) id() string {
	g.n++
	n := strconv.Itoa(g.n)
	if g.chance(50) {
		return pick(g, "", "-", "900719925474099", "922337203685477580", "18446744073709551616") + n
	}
	return g.written(pick(g, "", "0", "p", "dragoman-") + n + g.words())
}

// meta makes a _meta with keys of vendors and of tracing, and, if spoofed, those that only the proxy writes.
func (g *gen) meta(spoofs bool, token string) obj {
	o := g.object(2)
	if g.chance(40) {
		o = append(o, mem("traceparent", `"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`), mem("com.example/v", g.value(2)))
	}
	if token != "" {
		o = append(o, mem("progressToken", token))
	}
	if spoofs {
		for _, key := range reserved {
			if g.chance(25) {
				o = append(o, pair{wire.MetaPrefix + key, g.written(wire.MetaPrefix + key), g.value(1)})
			}
		}
	}
	return g.shuffled(o)
}

// reserved are the reserved keys of _meta, after their prefix.
var reserved = []string{"protocolVersion", "clientInfo", "clientCapabilities", "logLevel", "subscriptionId", "serverInfo"}

func withPrefix(keys ...string) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = wire.MetaPrefix + k
	}
	return out
}

// request is a client's request, with the _meta separate from the params.
type request struct {
	method, id, token string
	top               obj // unknown members beside params
	params            obj // without _meta
	bare              bool
	meta              obj
	hasMeta           bool
	at                int    // position of _meta among the params
	uri               string // as written
	page              string // the server's own cursor, if the request names it
	seed              uint64 // of the order of the members
}

var requestMethods = []string{"tools/call", "tools/call", "prompts/get", "resources/read", "tools/list", "prompts/list",
	"resources/list", "resources/templates/list", "completion/complete", "vendor/thing"}

func (g *gen) request(method string) *request {
	q := &request{method: method, id: g.id(), seed: g.Uint64()}
	var p obj
	switch q.method {
	case "tools/call", "prompts/get":
		p = append(p, mem("name", g.written(pick(g, "t", "ü-tool", "plain"))))
		if g.chance(70) {
			p = append(p, mem("arguments", g.object(3).with("region", quote("eu")).text()))
		}
	case "resources/read":
		q.uri = g.written("file:///" + pick(g, "a", "b c", "é"))
		p = append(p, mem("uri", q.uri))
	case "completion/complete":
		p = append(p, mem("ref", `{"type":"ref/prompt","name":"p"}`), mem("argument", `{"name":"a","value":"b"}`))
	default:
		if q.bare = g.chance(20); !q.bare && g.chance(40) {
			p = append(p, mem("cursor", g.str()))
		}
	}
	if !q.bare {
		p = append(p, g.object(2)...)
		for _, key := range []string{"task", "inputResponses", "requestState"} {
			if g.chance(10) && (key != "requestState" || !rules.Askable(q.method)) {
				p = append(p, pair{key, g.written(key), pick(g, "{}", `{"a":{}}`, g.str())})
			}
		}
	}
	q.params = g.shuffled(p)
	if g.chance(30) {
		q.top = obj{g.unknown(1)}
	}
	return q
}

// addMeta gives the request a _meta.
func (g *gen) addMeta(q *request, m obj) {
	q.meta, q.hasMeta, q.bare = m, true, false
	q.at = g.IntN(len(q.params) + 1)
}

// whole is the request as a message; its members are in the request's own order.
func (q *request) whole(params obj, present bool) obj {
	o := obj{mem("jsonrpc", `"2.0"`), mem("id", q.id), mem("method", quote(q.method))}
	if present {
		o = append(o, mem("params", params.text()))
	}
	return newGen(q.seed).shuffled(append(o, q.top...))
}

// full returns the params with _meta in its place.
func (q *request) full() obj {
	if !q.hasMeta {
		return q.params
	}
	return slices.Insert(slices.Clone(q.params), q.at, mem("_meta", q.meta.text()))
}
