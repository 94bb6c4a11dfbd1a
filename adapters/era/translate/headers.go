package translate

import (
	"bytes"
	"strconv"
	"strings"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// ParamHeader is the prefix of the headers in which a modern HTTP client mirrors the parameters that a tool's schema
// marks with x-mcp-header (SEP-2243).
const ParamHeader = "Mcp-Param-"

// MirroredParam is one mirrored parameter: its path in the arguments and the name after Mcp-Param-.
type MirroredParam struct {
	path    []string
	name    string
	integer bool // compared as a number
}

// MirroredParams returns the x-mcp-header annotations of a tool and whether they are valid: each name is a token, unique
// without regard to case, on a string, integer or boolean that is reached through properties only.
func MirroredParams(tool []byte) (found []MirroredParam, valid bool) {
	if !bytes.Contains(tool, []byte("x-mcp-header")) {
		return nil, true
	}
	schema := wire.Get(tool, wire.Whole(tool), "inputSchema")
	w := walker{raw: tool, valid: true, seen: map[string]bool{}}
	w.object(schema, nil)
	if w.valid && w.count != bytes.Count(schema.Of(tool), []byte(`"x-mcp-header"`)) {
		w.valid = false // an annotation cannot be reached through properties
	}
	return w.found, w.valid
}

type walker struct {
	raw   []byte
	found []MirroredParam
	seen  map[string]bool
	count int
	valid bool
}

const maxSchemaDepth = 32

func (w *walker) object(schema wire.Span, path []string) {
	if len(path) > maxSchemaDepth {
		w.valid = false
		return
	}
	for k, v := range wire.Members(w.raw, wire.Get(w.raw, schema, "properties")) {
		at := append(path[:len(path):len(path)], string(k.Text(w.raw)))
		if a := wire.Get(w.raw, v, "x-mcp-header"); a.Present() {
			w.annotation(a, v, at)
		}
		w.object(v, at)
	}
}

func (w *walker) annotation(a, schema wire.Span, path []string) {
	w.count++
	name := string(a.Text(w.raw))
	key := strings.ToLower(name)
	if !isToken(name) || w.seen[key] || !w.primitive(wire.Get(w.raw, schema, "type")) {
		w.valid = false
		return
	}
	w.seen[key] = true
	integer := bytes.Contains(wire.Get(w.raw, schema, "type").Of(w.raw), []byte(`"integer"`))
	w.found = append(w.found, MirroredParam{path: path, name: name, integer: integer})
}

// primitive reports whether the type is permitted: one primitive type, alone or together with "null". Nullable
// parameters must be permitted, since the rules for null would otherwise be pointless.
func (w *walker) primitive(t wire.Span) bool {
	one := func(s wire.Span) bool {
		return s.Is(w.raw, "string") || s.Is(w.raw, "integer") || s.Is(w.raw, "boolean")
	}
	if t.IsString(w.raw) {
		return one(t)
	}
	n, null := 0, 0
	for _, s := range wire.Items(w.raw, t) {
		if s.Is(w.raw, "null") {
			null++
		} else if one(s) {
			n++
		} else {
			return false
		}
	}
	return n == 1 && null <= 1
}

// isToken reports whether name may be part of a header name (RFC 9110, token).
func isToken(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0 {
			continue
		}
		return false
	}
	return name != ""
}

// value returns the plain text of a mirrored parameter in the arguments. there is false if it is absent or null: it then
// has no header.
func (p MirroredParam) value(m *wire.Message) (plain []byte, there bool, err *proxy.Error) {
	s := wire.Path(m.Raw, m.Arguments, p.path...)
	v := s.Of(m.Raw)
	switch {
	case v == nil, string(v) == "null":
		return nil, false, nil
	case v[0] == '"':
		return s.Text(m.Raw), true, nil
	case v[0] == '{' || v[0] == '[':
		return nil, false, nil // not of the declared type: left to the server
	case v[0] == 't' || v[0] == 'f':
		return v, true, nil
	}
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil && (n > 1<<53-1 || n < -(1<<53-1)) {
		return nil, false, proxy.Errf(proxy.InvalidParams, "argument %s is beyond ±(2^53-1), which a mirrored integer must not be", strings.Join(p.path, "."))
	}
	return v, true, nil
}

// ParamHeaders returns the Mcp-Param-* headers of a call with plain values; the modern link encodes them.
func ParamHeaders(m *wire.Message, of []MirroredParam) ([]proxy.Header, *proxy.Error) {
	var out []proxy.Header
	for _, p := range of {
		plain, there, err := p.value(m)
		if err != nil {
			return nil, err
		}
		if there {
			out = append(out, proxy.Header{Name: ParamHeader + p.name, Value: string(plain)})
		}
	}
	return out, nil
}

// CheckParamHeaders compares a client's Mcp-Param-* headers, with decoded values, with the body (2026-07-28 streamable
// HTTP, Server Behavior for Custom Headers).
func CheckParamHeaders(m *wire.Message, of []MirroredParam, sent []proxy.Header) *proxy.Error {
	for _, p := range of {
		plain, there, err := p.value(m)
		if err != nil {
			return err
		}
		header, has := "", false
		for _, h := range sent {
			if strings.EqualFold(h.Name, ParamHeader+p.name) {
				header, has = h.Value, true
			}
		}
		switch {
		case there && !has:
			return proxy.Errf(proxy.HeaderMismatch, "header %s%s is missing; it mirrors argument %s", ParamHeader, p.name, strings.Join(p.path, "."))
		case there && !p.same(string(plain), header):
			return proxy.Errf(proxy.HeaderMismatch, "header %s%s does not match argument %s", ParamHeader, p.name, strings.Join(p.path, "."))
		}
	}
	return nil
}

// same compares a value with its header; integers as numbers.
func (p MirroredParam) same(plain, header string) bool {
	if plain == header || !p.integer {
		return plain == header
	}
	a, err1 := strconv.ParseFloat(plain, 64)
	b, err2 := strconv.ParseFloat(header, 64)
	return err1 == nil && err2 == nil && a == b
}

// DropInvalidTools removes tools with invalid annotations from a tool list of an HTTP server.
func DropInvalidTools(m *wire.Message) {
	if !bytes.Contains(m.Of(m.Result), []byte("x-mcp-header")) {
		return
	}
	bad := false
	for _, s := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, "tools")) {
		if _, valid := MirroredParams(s.Of(m.Raw)); !valid {
			bad = true
		}
	}
	if bad {
		editTools(m, func(tool []byte) []byte {
			if _, valid := MirroredParams(tool); !valid {
				return nil
			}
			return tool
		})
	}
}
