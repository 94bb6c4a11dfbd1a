package skills

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/goccy/go-json"
)

func TestSplit(t *testing.T) {
	for doc, want := range map[string]string{
		"---\nname: a\ndescription: Does b\n---\nbody\n":                                                           `{"name":"a","description":"Does b"} body`,
		"---\r\nname: a\r\ndescription: x\r\n---\r\nbody":                                                          `{"name":"a","description":"x"} body`,
		"---\nname: a\ndescription: |\n  two\n  lines\nlicense: MIT\n---":                                          `{"name":"a","description":"two\nlines\n","license":"MIT"} `,
		"---\nname: a\ndescription: x\nmetadata:\n  version: \"1.0\"\n  n: 3\nallowed-tools: [a, b]\nx: ~\n---\nb": `{"name":"a","description":"x","metadata":{"version":"1.0","n":3},"allowed-tools":["a","b"],"x":null} b`,
		"---\nname: a\ndescription: 'it''s: \"so\"'\nf: 1.5\nt: true\ninf: .inf\nbig: 18446744073709551615\n---\n": `{"name":"a","description":"it's: \"so\"","f":1.5,"t":true,"inf":".inf","big":18446744073709551615} `,
		"---\nname: a\ndescription: x\n---\n---\nname: b\n---\n":                                                   `{"name":"a","description":"x"} ---` + "\nname: b\n---",
		"name: a\n": "error", "---\nname: a\ndescription: x\n": "error", "---\n- a\n---\n": "error", "---\nname: A\ndescription: x\n---\n": "error",
		"---\nname: a\n---\n": "error", "---\nname: &x a\ndescription: *x\n---\n": "error", "---\nname: a\ndescription: !!str x\n---\n": "error",
		"---\nname: a\nname: b\ndescription: x\n---\n": "error", "": "error", "---\n---\n": "error",
		"---\nname: a\ndescription: " + strings.Repeat("x", 1025) + "\n---\n":                                   "error",
		"---\nname: a\ndescription: x\nc: " + strings.Repeat("[", 20) + strings.Repeat("]", 20) + "\n---\n":     "error",
		"---\nname: a\ndescription: x\ncompatibility: " + strings.Repeat("x", 501) + "\n---\n":                  "error",
		"---\nname: a\ndescription: x\n" + strings.Repeat("#"+strings.Repeat("x", 1000)+"\n", 70) + "---\nbody": "error",
	} {
		f, body, err := Split([]byte(doc))
		got := "error"
		if err == nil {
			got = string(f.JSON) + " " + strings.TrimSpace(string(body))
		} else if !errors.Is(err, errFrontmatter) {
			t.Errorf("%q: %v", doc, err)
		}
		if got != want {
			t.Errorf("%.200q: %s, want %s (%v)", doc, got, want, err)
		}
	}
}

// What is written is read as it was, whatever is in it.
func FuzzFrontmatter(f *testing.F) {
	f.Add("Does a: b # c", "Apache-2.0 \"x\"", "k", "v\n---\n")
	f.Add("--- \x00 \u202e", "\U000e0041\\", "- a", "`")
	f.Fuzz(func(t *testing.T, description, license, key, value string) {
		for _, text := range []string{description, license, key, value} {
			if !utf8.ValidString(text) || len(text) > maxDescription {
				return
			}
		}
		in := Frontmatter{Name: "a-b", Description: description, License: license, Metadata: map[string]string{key: value}}
		if in.Check() != nil || value == "" {
			return
		}
		raw := in.Append(nil)
		out, body, err := Split(append(raw, "body"...))
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if out.Description != description || out.License != license || !maps.Equal(out.Metadata, in.Metadata) || string(body) != "body" {
			t.Errorf("%q is read as %q", raw, fmt.Sprint(out))
		}
	})
}

// No document of others makes the reader fail, and what it takes is JSON with the fields of the format.
func FuzzSplit(f *testing.F) {
	f.Add([]byte("---\nname: a\ndescription: x\nmetadata: {a: [1, 0x1f, 1e5, .nan], \"b\": ~}\n---\nbody"))
	f.Add([]byte("---\nname: a\ndescription: >-\n  x\n  ? y\n---"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		head, _, err := Split(doc)
		if err != nil {
			return
		}
		if !json.Valid(head.JSON) || !ValidName(head.Name) || head.Description == "" {
			t.Errorf("%q is taken as %s", doc, head.JSON)
		}
	})
}

// A name that YAML would read as something else is quoted.
func TestNamesThatAreNoText(t *testing.T) {
	for _, name := range []string{"0", "007", "1e3", "true", "null", "yes", "on", "n", "a", "true-north"} {
		f := Frontmatter{Name: name, Description: "x"}
		doc := f.Append(nil)
		if got, _, err := Split(doc); err != nil || got.Name != name {
			t.Errorf("%q: %q, %v\n%s", name, got.Name, err, doc)
		}
		if plain := strings.Contains(string(doc), "name: "+name+"\n"); plain != (name == "a" || name == "true-north") {
			t.Errorf("%q:\n%s", name, doc)
		}
	}
}
