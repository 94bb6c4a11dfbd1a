package skills

import (
	"slices"
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	for text, want := range map[string]string{
		"github":                            "github",
		"GitHub Enterprise (v2)":            "github-enterprise-v2",
		"--a__b--":                          "a-b",
		"../../.bashrc":                     "bashrc",
		"io.github/user":                    "io-github-user",
		"CON":                               "con-8b40b3a8",
		"日本":                                "server-5e8f8312",
		"":                                  "server-e3b0c442",
		"a" + strings.Repeat("b", 80):       "a" + strings.Repeat("b", 63),
		strings.Repeat("a", 62) + " bbb":    strings.Repeat("a", 62) + "-b",
		strings.Repeat("a", 63) + "\x00\nb": strings.Repeat("a", 63),
	} {
		got := Name(text)
		if text == "CON" || text == "日本" || text == "" { // the hash is not the subject
			if got[:len(got)-sumLength] != want[:len(want)-sumLength] {
				t.Errorf("%q is %q, want %q and a hash", text, got, want)
			}
		} else if got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
		if !ValidName(got) {
			t.Errorf("%q is no valid name", got)
		}
	}
}

func TestValidName(t *testing.T) {
	for name, want := range map[string]bool{"a": true, "a-b": true, "pdf2": true, strings.Repeat("a", 64): true, "": false, "-a": false, "a-": false,
		"a--b": false, "A": false, "a_b": false, "ä": false, "a.b": false, strings.Repeat("a", 65): false} {
		if ValidName(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

// Texts that would share a name all get a hash, and no two names are the same, whatever the order is.
func TestNames(t *testing.T) {
	texts := []string{"a b", "a-b", "A B", "c", "aux", "c"}
	got := Names(texts)
	if got[3] != "c" || got[5] != "c" {
		t.Errorf("alone: %q", got)
	}
	for i, name := range got {
		if !ValidName(name) || i < 3 && !strings.HasPrefix(name, "a-b-") {
			t.Errorf("%q is %q", texts[i], name)
		}
		for j := range i {
			if (got[j] == name) != (texts[j] == texts[i]) {
				t.Errorf("%q and %q are %q", texts[i], texts[j], name)
			}
		}
	}
	back := slices.Clone(texts)
	slices.Reverse(back)
	other := Names(back)
	slices.Reverse(other)
	if !slices.Equal(got, other) {
		t.Errorf("the order decides: %q, %q", got, other)
	}
	taken := Names([]string{"a b", "a-b", got[0]}) // a text that has the name which the hash makes
	if taken[0] == taken[2] || taken[1] == taken[2] {
		t.Errorf("taken: %q", taken)
	}
}
