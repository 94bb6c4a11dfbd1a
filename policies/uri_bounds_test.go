package policies

import (
	"errors"
	"strings"
	"testing"
)

// Each reason for which a URI is not judged is told for what it says, up to its bound.
func TestURIBounds(t *testing.T) {
	nested := func(levels int) string { return "demo://a/%" + strings.Repeat("25", levels-1) + "61" }
	long := func(size int) string { return "demo:" + strings.Repeat("a", size-len("demo:")) }
	for text, want := range map[string]error{
		long(maxJudged): nil, long(maxJudged + 1): errLong,
		nested(maxNested * (maxNested - 1)): nil, nested(maxNested*(maxNested-1) + 1): errNested,
		"http://h:65535/": nil, "http://h:65536/": errPort, "http://h:0/": nil,
		"http://1.2.3.4/": nil, "http://1.2.3/": errHost, "http://h.1.2.3.4/": errHost, "http://h.0x/": errHost, "http://h.0xg/": nil, "http://[::1]/": nil, "http://[1.2.3.4]/": errHost,
		"demo://u@h/a": nil, "demo://u%3f@h/a": errUser, "demo://h/a?@": nil,
		"demo:a/.": errDots, "demo:.a": nil, "demo:a/.b": nil, "demo:a?/..": errDots, "demo:a/;.": nil,
		"file:/": nil, "file:": errNotSlash, "http://h": nil, "http:/h": errNoHost, "http:////h": errNoHost,
		"a+-.1:b": nil, "1a:b": errNoScheme, "a_b:c": errNoScheme, "ab": errNoScheme,
	} {
		if _, err := ReadURI([]byte(text)); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%.60q (%d bytes): %v, want %v", text, len(text), err, want)
		}
	}
}

// A pattern may end before the host, in any spelling, and permits what begins so.
func TestURIPatternBeforeTheHost(t *testing.T) {
	for pattern, c := range map[string]struct {
		text    string
		permits bool
	}{
		"HTTP://*":   {"http://h/a", true},
		"HTTP:*":     {"http://h/a", true},
		"http:\\\\*": {"http://h/a", true},
		"FILE://*":   {"file:///srv/a", true},
		"https://*":  {"http://h/a", false},
		"http://h*":  {"http://h.example/a", true},
		"HTTP://H*":  {"http://h.example/a", true},
		"http://h/*": {"http://h.example/a", false},
		"demo://H*":  {"demo://h/a", false},
	} {
		rules := NewURIRules([]string{pattern})
		if u := readURI(t, c.text); rules.Permit(u) != c.permits {
			t.Errorf("%q permits %q: %v; %+v", pattern, c.text, !c.permits, *u)
		}
	}
}

// A pattern is read as a server reads it that decodes first and splits then, and an empty one selects nothing.
func TestURIPatternOfOddSpelling(t *testing.T) {
	for pattern, c := range map[string]struct {
		text   string
		covers bool
	}{
		"http://h%3A80/x":                 {"http://h/x", true},
		"file:%2F%2Flocalhost/etc/passwd": {"file:///etc/passwd", true},
		"http://h%3A81/x":                 {"http://h/x", false},
		"":                                {"demo://x", false},
	} {
		rules := NewURIRules([]string{pattern})
		if u := readURI(t, c.text); rules.Cover(u) != c.covers {
			t.Errorf("%q covers %q: %v; %q", pattern, c.text, !c.covers, u.readings)
		}
	}
}
