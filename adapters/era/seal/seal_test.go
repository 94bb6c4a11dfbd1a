package seal

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

func newTestSealer(t testing.TB, secret string) *Sealer {
	t.Helper()
	s, err := New([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A sealed value can be opened only for what it is bound to, until it expires; no two states are alike.
func TestSeal(t *testing.T) {
	s, bound, now := newTestSealer(t, ""), [32]byte{1}, time.Unix(1_800_000_000, 0)
	state := s.Seal(URLs, []byte("body"), bound, now)
	if state == s.Seal(URLs, []byte("body"), bound, now) {
		t.Error("two states are alike")
	}
	if strings.Contains(state, "body") || strings.Trim(state, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
		t.Errorf("%q is readable, or no plain ASCII", state)
	}
	f := func(name string, s *Sealer, state string, bound [32]byte, now time.Time, ok bool) {
		t.Helper()
		kind, body, err := s.Open(state, bound, now)
		switch {
		case ok && (err != nil || kind != URLs || string(body) != "body"):
			t.Errorf("%s: %d %q %v", name, kind, body, err)
		case !ok && (!errors.Is(err, errState) || kind != 0 || body != nil):
			t.Errorf("%s: %d %q %v", name, kind, body, err)
		}
	}
	f("at once", s, state, bound, now.Add(-time.Hour), true)
	f("in its last second", s, state, bound, now, true)
	f("expired", s, state, bound, now.Add(time.Second), false)
	f("another binding", s, state, [32]byte{2}, now, false)
	f("another process", newTestSealer(t, ""), state, bound, now, false)
	f("empty", s, "", bound, now, false)
	f("the prefix alone", s, prefix, bound, now, false)
	f("no prefix", s, state[len(prefix):], bound, now, false)
	f("another version", s, "v2."+state[len(prefix):], bound, now, false)
	f("padded", s, state+"=", bound, now, false)
	f("a line end", s, state+"\n", bound, now, false)
	f("longer", s, state+"AAAA", bound, now, false)
	f("shorter", s, state[:len(state)-4], bound, now, false)
	f("an empty body", s, prefix+base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, []byte{1, 2, 3}, bound[:])), bound, now, false)
	same, other := newTestSealer(t, "one secret"), newTestSealer(t, "one secret")
	f("another process with the key", other, same.Seal(URLs, []byte("body"), bound, now), bound, now, true)
	f("another key", newTestSealer(t, "one secret "), same.Seal(URLs, []byte("body"), bound, now), bound, now, false)
}

// Not a bit of a state can be changed, nor written in another way.
func TestSealEveryBit(t *testing.T) {
	s, bound, now := newTestSealer(t, ""), [32]byte{1}, time.Now()
	state := s.Seal(PendingCall, make([]byte, 16), bound, now.Add(time.Hour))
	raw, err := base64.RawURLEncoding.DecodeString(state[len(prefix):])
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(raw) * 8 {
		changed := bytes.Clone(raw)
		changed[i/8] ^= 1 << (i % 8)
		if _, _, err := s.Open(prefix+base64.RawURLEncoding.EncodeToString(changed), bound, now); err == nil {
			t.Errorf("bit %d does not count", i)
		}
	}
	for i := range state {
		for _, c := range "ABYZabyz0189-_=.\n \x00é" {
			changed := state[:i] + string(c) + state[i+1:]
			if _, _, err := s.Open(changed, bound, now); err == nil && changed != state {
				t.Errorf("%q instead of %q at %d does not count", c, state[i], i)
			}
		}
	}
	for i := range bound {
		other := bound
		other[i] ^= 0x80
		if _, _, err := s.Open(state, other, now); err == nil {
			t.Errorf("byte %d of the binding does not count", i)
		}
	}
}

// A state is bound to principal, server, method and parameters: as values, without those that differ between a call and
// its retry.
func TestBinding(t *testing.T) {
	of := func(who, server, method, params string) [32]byte {
		m := fakeserver.Scan(t, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)
		return Binding(&proxy.Exchange{Msg: *m, Caller: proxy.Caller{Principal: who}}, server)
	}
	base := of("p", "s", "tools/call", `{"name":"a","arguments":{"x":[1,{"b":2,"c":"\u0061/"}],"y":{}}}`)
	same := func(params string) {
		t.Helper()
		if of("p", "s", "tools/call", params) != base {
			t.Errorf("another binding: %s", params)
		}
	}
	same(`{"arguments":{"y":{},"x":[1,{"c":"a\/","b":2}]},"name":"a"}`)
	same(`{ "name" : "\u0061", "argu\u006dents":{"x": [ 1 ,{"b":2,"c":"a/"}] ,"y":{ }}}`)
	same(`{"name":"a","_meta":{"x":1},"inputResponses":{"a":{}},"requestState":"s","arguments":{"x":[1,{"b":2,"c":"a/"}],"y":{}}}`)
	differs := func(who, server, method, params string) {
		t.Helper()
		if of(who, server, method, params) == base {
			t.Errorf("the same binding: %s %s %s %s", who, server, method, params)
		}
	}
	args := `{"name":"a","arguments":{"x":[1,{"b":2,"c":"a/"}],"y":{}}}`
	differs("q", "s", "tools/call", args)
	differs("", "s", "tools/call", args)
	user := proxy.Caller{Principal: "p", Forwarded: &proxy.Forwarded{Sum: [16]byte{1}}}
	if Binding(&proxy.Exchange{Msg: *fakeserver.Scan(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+args+`}`), Caller: user}, "s") == base {
		t.Error("the same binding for another user of the principal")
	}
	differs("p", "t", "tools/call", args)
	differs("ps", "", "tools/call", args)
	differs("p", "s", "prompts/get", args)
	for _, params := range []string{
		`{"name":"b","arguments":{"x":[1,{"b":2,"c":"a/"}],"y":{}}}`,
		`{"name":"a","arguments":{"x":[1.0,{"b":2,"c":"a/"}],"y":{}}}`, // numbers count as they are written
		`{"name":"a","arguments":{"x":["1",{"b":2,"c":"a/"}],"y":{}}}`,
		`{"name":"a","arguments":{"x":[{"b":2,"c":"a/"},1],"y":{}}}`,
		`{"name":"a","arguments":{"x":[1,{"b":2,"c":"A/"}],"y":{}}}`,
		`{"name":"a","arguments":{"x":[1,{"b":2},{"c":"a/"}],"y":{}}}`,
		`{"name":"a","arguments":{"x":[1,{"b":2,"c":"a/"}],"y":null}}`,
		`{"name":"a","arguments":{"x":[1,{"b":2,"c":"a/"}]}}`,
		`{"name":"a","arguments":{"x":[1,{"b":2,"c":"a/"}],"y":{},"_meta":{}}}`, // skipped in params, not below
		`{"name":"a","arguments":{"x":[1,{"b":2,"c":"a/"}],"y":{}},"more":1}`,
		`{"name":"a"}`, `{}`,
	} {
		differs("p", "s", "tools/call", params)
	}
}

func canonicalOf(raw string) string {
	return string(Canonical(nil, []byte(raw), wire.Span{From: 0, To: uint32(len(raw))}))
}

// Deep nesting costs no more than its length, a bounded number of times; what is that deep counts as it is written.
func TestCanonicalDepth(t *testing.T) {
	nest := func(n int, inner string) string { return strings.Repeat("[", n) + inner + strings.Repeat("]", n) }
	one, other := `{"a":1,"b":2}`, `{"b":2,"a":1}`
	if canonicalOf(nest(maxDepth, one)) != canonicalOf(nest(maxDepth, other)) {
		t.Error("the order of members counts")
	}
	if canonicalOf(nest(maxDepth+1, one)) == canonicalOf(nest(maxDepth+1, other)) {
		t.Error("what is deeper is ordered too")
	}
	began := time.Now()
	for _, raw := range []string{nest(500_000, ""), strings.Repeat(`{"a":`, 200_000) + "1" + strings.Repeat("}", 200_000)} {
		if len(canonicalOf(raw)) < len(raw) {
			t.Error("something is missing")
		}
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("took %s", d)
	}
}

// Whatever comes as a state: only what was sealed opens, and only as it was.
func FuzzOpenState(f *testing.F) {
	s, bound, now := newTestSealer(f, ""), [32]byte{7}, time.Now() // a worker has another key than made the seeds
	good := s.Seal(PendingCall, make([]byte, 16), bound, now.Add(time.Hour))
	for _, seed := range []string{good, good + "=", good[:20], prefix, "", "v1.AAAA", "v1.%%%", strings.Repeat("A", 1<<12)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, state string) {
		kind, body, err := s.Open(state, bound, now)
		if state == good && (err != nil || kind != PendingCall || len(body) != 16) {
			t.Errorf("%d %x %v", kind, body, err)
		}
		if state != good && err == nil {
			t.Errorf("%q opens", state)
		}
	})
}

// shuffled writes a value in another way: members in reverse, and space between everything.
func shuffled(dst, raw []byte, s wire.Span) []byte {
	switch {
	case s.IsObject(raw):
		var all [][]byte
		for k, v := range wire.Members(raw, s) {
			all = append(all, shuffled(append(bytes.Clone(k.Of(raw)), " : "...), raw, v))
		}
		names := map[string]bool{}
		for k := range wire.Members(raw, s) {
			names[string(k.Text(raw))] = true
		}
		if len(names) == len(all) { // members of one name keep their order
			for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
				all[i], all[j] = all[j], all[i]
			}
		}
		return append(append(append(dst, "{ "...), bytes.Join(all, []byte(" ,\n"))...), " }"...)
	case raw[s.From] == '[':
		var all [][]byte
		for _, v := range wire.Items(raw, s) {
			all = append(all, shuffled(nil, raw, v))
		}
		return append(append(append(dst, "[\t"...), bytes.Join(all, []byte(" , "))...), " ]"...)
	}
	return append(dst, s.Of(raw)...)
}

func depthOf(raw []byte) (most int) {
	depth := 0
	for _, c := range raw { // brackets in strings count too: then the value is passed over
		if c == '[' || c == '{' {
			depth++
			most = max(most, depth)
		}
		if c == ']' || c == '}' {
			depth--
		}
	}
	return most
}

// Equal values give equal bytes, however they are written; one member more gives others.
func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{`{}`, `{"b":[1,{"d":"\u0061","c":null}],"a":1e2}`, `{"":"","\u00e9":"é","é ":[[],[[]]]}`, `{"a":{"a":{"a":{}}}}`, `{"x":"\\\"\/\b"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, params string) {
		m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":` + params + `}`))
		if err != nil || !m.Params.IsObject(m.Raw) || depthOf(m.Raw) > maxDepth {
			t.Skip()
		}
		one := Canonical(nil, m.Raw, m.Params)
		again, err := wire.Scan(append(shuffled([]byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":`), m.Raw, m.Params), '}'))
		if err != nil {
			t.Fatalf("%v: %s", err, again.Raw)
		}
		if two := Canonical(nil, again.Raw, again.Params); !bytes.Equal(one, two) {
			t.Errorf("%s\nas %s\n%s\nas %s", m.Raw, one, again.Raw, two)
		}
		more := wire.Message{Raw: bytes.Clone(m.Of(m.Params))}
		more.EditObject(more.Whole(), []wire.Change{{Key: "one more than there is", Value: []byte("0")}})
		if bytes.Contains(m.Raw, []byte("one more")) {
			t.Skip()
		}
		if other := canonicalOf(string(more.Append(nil))); other == string(one) {
			t.Errorf("%s counts as %s", more.Append(nil), m.Raw)
		}
	})
}
