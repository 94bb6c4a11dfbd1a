package policies

import (
	"bufio"
	"encoding/json"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// The spellings that browsers take for one URI are judged alike, or refused for how they are spelled.
func TestURIsAsBrowsersReadThem(t *testing.T) {
	text, err := os.ReadFile("testdata/whatwg.json")
	if err != nil {
		t.Fatal(err)
	}
	var groups [][]string
	if err := json.Unmarshal(text, &groups); err != nil {
		t.Fatal(err)
	}
	read, refused := 0, 0
	for _, group := range groups {
		normal, err := ReadURI([]byte(group[0]))
		for _, spelling := range group[1:] {
			u, uerr := ReadURI([]byte(spelling))
			switch {
			case uerr != nil:
				refused++
			case err != nil:
				t.Errorf("%q is read, but not its normal form %q: %v", spelling, group[0], err)
			case u.exact != normal.exact || u.whole != normal.whole || u.bare != normal.bare:
				t.Errorf("%q is read as %q, %q and its normal form %q as %q, %q", spelling, u.exact, u.whole, group[0], normal.exact, normal.whole)
			default:
				read++
			}
		}
	}
	if read < 1000 || refused < 1000 {
		t.Errorf("%d spellings were read, %d refused", read, refused)
	}
}

// node answers what Node's URL makes of a text. It is started by the first fuzzed input, and ends with the process.
var node = sync.OnceValue(func() func(text string) (href string, ok bool) {
	cmd := exec.Command("node", "testdata/whatwg.mjs", "lines")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil
	}
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return nil
	}
	lines := bufio.NewReader(out)
	return func(text string) (href string, ok bool) {
		line, err := json.Marshal(text)
		if err != nil {
			panic(err)
		}
		if _, err := in.Write(append(line, '\n')); err != nil {
			panic(err)
		}
		answer, err := lines.ReadBytes('\n')
		if err != nil && err != io.EOF {
			panic(err)
		}
		return href, json.Unmarshal(answer, &href) == nil && string(answer) != "null\n"
	}
})

// FuzzURI holds that a URI that is judged is judged like its normal form by RFC 3986 (net/url) and by the WHATWG (Node, if it is
// installed), that a rule for a URI covers and permits it, and that one that denies it covers it with any character percent-encoded.
func FuzzURI(f *testing.F) {
	for _, text := range append(spelled, uncertain...) {
		f.Add(text, uint(len(text)/2))
	}
	f.Fuzz(func(t *testing.T, text string, at uint) {
		u, err := ReadURI([]byte(text))
		if err != nil {
			return
		}
		same := func(by, other string) {
			v, err := ReadURI([]byte(other))
			if err != nil || v.exact != u.exact || v.whole != u.whole || v.bare != u.bare {
				t.Errorf("%q is read as %+v, but %q (%s) as %+v, %v", text, u, other, by, v, err)
			}
		}
		same("its own form", u.exact)
		if ask := node(); ask != nil {
			if href, ok := ask(text); ok {
				same("Node", href)
			}
		}
		if parsed, err := url.Parse(text); err == nil && strings.HasPrefix(parsed.Path, "/") {
			normal := parsed.ResolveReference(&url.URL{}).String()
			_, err := ReadURI([]byte(normal)) // of http:/\\h it makes a path without a host
			if rules := NewURIRules([]string{normal}); err == nil && !strings.HasSuffix(normal, "*") && !rules.Cover(u) {
				t.Errorf("the rule for %q, as net/url reads it, does not cover %q: %+v", normal, text, u)
			}
		}
		if strings.HasSuffix(text, "*") {
			return
		}
		rules := NewURIRules([]string{text})
		if !rules.Cover(u) || !rules.Permit(u) {
			t.Errorf("the rule %q does not select its URI: %+v", text, u)
		}
		i := int(at % uint(len(text)))
		for range 3 { // encoded three times over
			if i <= strings.IndexByte(text, ':') {
				return
			}
			text = text[:i] + "%" + string(hexDigits[text[i]>>4]) + string(hexDigits[text[i]&15]) + text[i+1:]
			if v, err := ReadURI([]byte(text)); err == nil && !rules.Cover(v) {
				t.Errorf("the rule for %+v does not cover %q: %+v", u, text, v)
			}
		}
	})
}
