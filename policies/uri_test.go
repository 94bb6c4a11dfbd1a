package policies

import "testing"

// spelled are spellings of demo://secret/a that some server reads as it. A rule that denies it refuses all of them.
var spelled = []string{
	"demo://secret/a", "DEMO://secret/a", "demo://SECRET/a", "demo://secret/A", "demo://secret//a", "demo:///secret/a", "demo:/secret/a",
	"demo:secret/a", "demo://secret/a/", "demo://secret/%61", "demo://%73ecret/a", "demo://secret%2Fa", "demo://secret%2fa", "demo://secret/%2561",
	"demo://secret/a#x", "demo://secret/a?x", "demo://secret/a?", "demo://secret/a%3fx", "demo://secret/a%23", "demo://u@secret/a", "demo://u:p@secret/a",
	"demo://other%2F@secret/a", "demo://secret:80/a", "demo://secret%3A80/a", "demo://secret:/a", "demo://u@secret:1/a", "demo://secret\\a", "demo://secret%5Ca", "demo:\\\\secret\\a",
	"demo://secret/a.", "demo://secret/a%20", "demo://secret /a", "demo://secret/\uff41", "demo://secret/%EF%BD%81", "demo://sec\u200bret/a", "demo://secret/\u00ada",
	"demo://secret\uff0fa", "demo://secret/%u0061", "demo://s%u0065cret/a", "demo://\u017fecret/a", "demo://secret/%41",
}

// uncertain are spellings that are refused where rules apply, whatever they say.
var uncertain = []string{
	"demo://x/../secret/a", "demo://secret/x/../a", "demo://secret/./a", "demo://secret/%2e/a", "demo://secret/x/%2e%2E/a", "demo://secret/x/.%2e/a",
	"demo://secret/x/%252e%252e/a", "demo://secret/x%2f..%2fa", "demo://secret/x\\..\\a", "demo://secret/x/..;p=1/a", "demo://secret/x/..", "demo://secret/.",
	"demo://secret/x/\u2025/a", "demo://secret/x/\uff0e\uff0e/a", "demo://s?path=../secret/a", "demo://s?path=./secret/a", "demo://secret/x/ .. /a", "demo://secret/x/..%20/a",
	" demo://secret/a", "demo://secret/a ", "\u00a0demo://secret/a", "\ufeffdemo://secret/a", "demo://sec\tret/a", "demo://sec\nret/a", "\x00demo://secret/a",
	"demo://secret/a\x7f", "demo://secret/a\u0085", "demo://secret/a%00", "demo://secret/a%0a", "demo://secret/%2500", "demo://secret/%c0%ae", "demo://secret/%ff",
	"demo://x\\@secret/a", "demo://x?@secret/a", "demo://x#@secret/a", "demo://x%3f@secret/a", "/secret/a", "secret", "", ":x", "1x:y", "de\u200bmo://secret/a",
	"http:secret/a", "http:/secret/a", "http:///secret/a", "http://", "http://:80/a", "http://0x7f.1/", "http://2130706433/", "http://127.1/", "http://127.0.0.01/",
	"http://[::1/", "http://h:70000/", "http://h:x/", "http://a b/", "http://a%2fb/", "file:a", "file:", "http://[::1%25eth0]/", "http://xn--/", "http://a\u2024b\u2100/",
	"demo://a/%25252525252525252525252525252525252e",
}

func readURI(t *testing.T, text string) *URI {
	t.Helper()
	u, err := ReadURI([]byte(text))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return u
}

func TestURISpellings(t *testing.T) {
	for _, pattern := range []string{"demo://secret/a", "demo://secret/*", "DEMO://Secret/%61", "demo://secret/{x}", "demo://{x}/a", "demo:*", "dem*", "*", "demo://*", "demo://sec*"} {
		rules := NewURIRules([]string{pattern})
		for _, text := range spelled {
			if u := readURI(t, text); !rules.Cover(u) {
				t.Errorf("%q is not covered by %q: %q", text, pattern, u.readings)
			}
		}
	}
	for _, pattern := range []string{"file:///etc/*", "file:///etc/passwd", "file:/{x}/passwd"} {
		rules := NewURIRules([]string{pattern})
		for _, text := range []string{"file:///etc/passwd", "file://127.0.0.1/etc/passwd", "file://Any.example/etc/passwd", "FILE://any/%65tc//passwd?x",
			"file://any\\etc\\passwd", "file:%2F%2Fany/etc/passwd", "file://any%2Fetc/passwd", "file://[::1]/etc/passwd", "file://xn--bcher-kva/etc/passwd"} {
			if u, err := ReadURI([]byte(text)); err == nil && !rules.Cover(u) { // a path of a server that ignores the host
				t.Errorf("%q is not covered by %q: %q", text, pattern, u.readings)
			}
		}
	}
	for text, pattern := range map[string]string{"demo://secret{/id}": "demo://secret/*", "demo://secret%7B/id,x}{?q}": "demo://secret/*", "demo://secret/a{?q}": "demo://secret/a",
		"demo://secret/a{#f}": "demo://secret/a", "demo://secret/a{;p}": "demo://secret/a;*", "demo://secret/a{.x}": "demo://secret/a.*"} {
		if rules := NewURIRules([]string{pattern}); !rules.Cover(readURI(t, text)) {
			t.Errorf("the template %q is not covered by %q: %q", text, pattern, readURI(t, text).readings)
		}
	}
	if bookstore := NewURIRules([]string{"http://b\u00fccher.{x}/a"}); !bookstore.Cover(readURI(t, "http://xn--bcher-kva.example/a")) {
		t.Error("a host in punycode is not covered by a template with its characters")
	}
	for _, text := range []string{"demo://s/.env", "demo://s/...", "demo://s/a.b", "demo://s/b?x=.&y=..#.z", "demo://s/b?x=.", "demo://s/b?x=..", "z39.50s://h/a"} {
		readURI(t, text) // it has dots, and no segment of dots
	}
	for _, text := range uncertain {
		if u, err := ReadURI([]byte(text)); err == nil {
			t.Errorf("%q is read as %+v", text, *u)
		}
	}
}

// What no server reads as the denied resource stays usable, and what is listed is judged by what it says.
func TestURIRulesAreNoWiderThanThat(t *testing.T) {
	for pattern, others := range map[string][]string{
		"demo://secret/a":     {"demo://secret", "demo://secret/", "demo://secret/ab", "demo://secret/a/b", "demo://other/secret/a", "memo://secret/a", "demo://secret%3Aa"},
		"demo://secret/*":     {"demo://secret", "demo://secrets/a", "demo://a/secret/b"},
		"demo://notes/{id}/x": {"demo://notes/1", "demo://notes/1/y", "demo://note/1/x"},
		"demo://a/{x}b{y}c":   {"demo://a/c", "demo://a/b", "demo://a/xcb"},
		"file:///etc/*":       {"file://any/etc", "file://any/x/etc/passwd", "file://any/x?/etc/passwd"},
		"http://h/x":          {"https://h/x", "http://h:8080/x", "http://h.example/x"},
		"mail://ann@h/*":      {"mail://bob@h/1", "mail://h/1"},
		"demo://100%/x":       {"demo://100/x"},
		"demo://x/{a":         {"demo://x/b"},
	} {
		rules := NewURIRules([]string{pattern})
		for _, text := range others {
			if u := readURI(t, text); rules.Cover(u) {
				t.Errorf("%q is covered by %q: %q", text, pattern, u.readings)
			}
		}
	}
}

// A rule that allows holds for the spellings that are the same by the standards, and for what servers list as it is.
func TestURIPermits(t *testing.T) {
	for pattern, texts := range map[string][]string{
		"demo://pub/*":                 {"demo://pub/a", "DEMO://pub/a", "demo://pub/a%2Fb", "demo://pub/a%2fb", "demo://pub/%7Ea", "demo://pub/a b", "demo://pub/a%20b", "demo://pub/a?q=1#f", "demo://pub/\u00e9", "demo://pub/{id}", "demo://pub/50%"},
		"demo://Pub/A":                 {"demo://Pub/A", "demo://Pub:/A", "demo://Pub/%41"},
		"http://h.example/*":           {"http://h.example/", "http://H.EXAMPLE:80/a", "http://h.example", "http://%68.example\\a", "http://h.example:080/a"},
		"http://b\u00fccher.example/*": {"http://xn--bcher-kva.example/a", "http://B\u00dcCHER.example/a"},
		"mail://ann@h/*":               {"mail://ann@h/1"},
		"file:///srv/*":                {"file:///srv/a", "file:/srv/a", "file://localhost/srv/a", "FILE:///srv/a b"},
		"file:///C:/x*":                {"file:///C|/x", "file:///C:/xy", "file://C:/x"},
		"file://C:\\x\\*":              {"file://C:\\x\\a"},
		"file:///A:/*":                 {"file:///A|/x", "file://A|/x"},
		"file:///Z:/*":                 {"file:///Z|/x"},
		"urn:a:*":                      {"urn:a:b"},
		"http://h:8*":                  {"http://h:8080/"},
		"*":                            {"demo://x", "http://u:p@h/"},
		"demo://x/..%2Fa*":             {},
	} {
		rules := NewURIRules([]string{pattern})
		for _, text := range texts {
			if u := readURI(t, text); !rules.Permit(u) {
				t.Errorf("%q is not permitted by %q: %+v", text, pattern, *u)
			}
		}
	}
	for pattern, texts := range map[string][]string{
		"demo://pub/*":        {"demo://PUB/a", "demo://pub", "demo:/pub/a", "demo://u@pub/a", "demo://pub@secret/a", "demo://pub%2Fa"},
		"demo://pub*":         {"demo://pub%40secret/a", "demo://pub%2540secret/a", "demo://pub@secret/a", "demo://pub:x@secret/a", "demo://pub%2F@secret/a"},
		"demo://pub/a":        {"demo://pub/A", "demo://pub/a/", "demo://pub/a?x", "demo://pub/a#x", "demo://pub//a", "demo://pub/\u200ba", "demo://pub%2Fa"},
		"http://h/*":          {"http://h:8080/a", "https://h/a", "http://u@h/a", "http://h.evil/"},
		"mail://ann@h/*":      {"mail://h/1", "mail://bob@h/1", "mail://ann%40h/1"},
		"http://pub.example*": {"http://pub.example@secret.example/", "http://pub.example:x@secret.example/"},
	} {
		rules := NewURIRules([]string{pattern})
		for _, text := range texts {
			if u := readURI(t, text); rules.Permit(u) {
				t.Errorf("%q is permitted by %q: %+v", text, pattern, *u)
			}
		}
	}
	if none := NewURIRules(nil); !none.Empty() || none.Cover(readURI(t, "demo://a")) || none.Permit(readURI(t, "demo://a")) {
		t.Error("no rules select something")
	}
}
