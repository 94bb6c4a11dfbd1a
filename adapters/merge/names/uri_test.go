package names

import (
	"net/url"
	"strings"
	"testing"
)

func TestPublicURI(t *testing.T) {
	for _, test := range []struct{ server, uri, want string }{
		{"docs", "demo://x/1", "dragoman+docs://demo///x/1"},
		{"docs", "file:///etc/hosts", "dragoman+docs://file////etc/hosts"},
		{"docs", "urn:isbn:1", "dragoman+docs://urn/isbn:1"},
		{"my_docs-2", "demo:", "dragoman+my.docs-2://demo/"},
		{"docs", "DEMO://X?a=b#c", "dragoman+docs://DEMO///X?a=b#c"},
		{"docs", "/relative/path:1", "dragoman+docs:////relative/path:1"},
		{"docs", "{+uri}", "dragoman+docs:///{+uri}"},
		{"docs", "{scheme}://x", "dragoman+docs:///{scheme}://x"},
		{"docs", "demo://x/{id}", "dragoman+docs://demo///x/{id}"},
		{"docs", "1demo:x", "dragoman+docs:///1demo:x"},
		{"docs", "", "dragoman+docs:///"},
		{"docs", "dragoman+other://demo///x", "dragoman+docs://dragoman+other///demo///x"},       // another Dragoman's
		{"my_docs-2", "ui://chart/view.html?a#b", "ui://dragoman+my_docs-2/chart/view.html?a#b"}, // hosts take no other scheme
		{"docs", "ui://{chart}", "ui://dragoman+docs/{chart}"},
		{"docs", "ui://", "ui://dragoman+docs/"},
		{"docs", "ui:x", "dragoman+docs://ui/x"},
		{"docs", "UI://x", "dragoman+docs://UI///x"},
		{"docs", "ui://dragoman+other/x", "ui://dragoman+docs/dragoman+other/x"},
	} {
		got := PublicURI(test.server, test.uri)
		if got != test.want {
			t.Errorf("%s of %s is %s, want %s", test.uri, test.server, got, test.want)
		}
		if server, uri, ok := SplitURI(got); !ok || server != test.server || uri != test.uri {
			t.Errorf("%s is %q of %q, %v; want %q of %q", got, uri, server, ok, test.uri, test.server)
		}
	}
}

func TestSplitURI(t *testing.T) {
	for _, uri := range []string{"", "demo://x", "dragoman://docs/demo/x", "dragoman+://demo/x", "dragoman+docs:demo/x", "dragoman+docs://demo", "dragoman+docs://d_m/x", "dragoman+docs://1demo/x",
		"ui://docs/x", "ui://dragoman+/x", "ui://dragoman+docs", "ui:dragoman+docs/x"} {
		if server, inner, ok := SplitURI(uri); ok {
			t.Errorf("%q is %q of %q", uri, inner, server)
		}
	}
	if server, uri, ok := SplitURI("DRAGOMAN+Docs://demo///x"); !ok || server != "docs" || uri != "demo://x" {
		t.Errorf("in capitals: %q of %q, %v", uri, server, ok)
	}
	if server, uri, ok := SplitURI("UI://Dragoman+Docs/X"); !ok || server != "docs" || uri != "ui://X" {
		t.Errorf("an app in capitals: %q of %q, %v", uri, server, ok)
	}
}

func TestSkillURI(t *testing.T) {
	for uri, want := range map[string]string{
		"skill://refunds/SKILL.md": "skill://my_shop/refunds/SKILL.md", "skill://a/b/refs/x.md": "skill://my_shop/a/b/refs/x.md", "skill://refunds": "skill://my_shop/refunds",
		"skill://my_shop/x/SKILL.md": "skill://my_shop/my_shop/x/SKILL.md", "skill:///x": "skill://my_shop//x", "skill://{name}/SKILL.md": "skill://my_shop/{name}/SKILL.md",
		"skill://": "", "skill://SKILL.md": "", "SKILL://x/y": "", "skill:x": "", "demo://x": "", "": "",
	} {
		got, ok := SkillURI("my_shop", uri)
		if got != want || ok != (want != "") {
			t.Errorf("%q is %q, %v; want %q", uri, got, ok, want)
		}
		if server, plain, ok := SplitSkillURI(got); ok != (want != "") || ok && (server != "my_shop" || plain != uri) {
			t.Errorf("%q is %q of %q, %v", got, plain, server, ok)
		}
	}
	for _, uri := range []string{"", "skill://a", "skill://a/", "skill:///x", "skill://a/SKILL.md", "demo://a/x"} {
		if server, plain, ok := SplitSkillURI(uri); ok {
			t.Errorf("%q is %q of %q", uri, plain, server)
		}
	}
	if server, plain, ok := SplitSkillURI("Skill://Shop/x"); !ok || server != "shop" || plain != "skill://x" {
		t.Errorf("in capitals: %q of %q, %v", plain, server, ok)
	}
}

func TestScheme(t *testing.T) {
	for uri, want := range map[string]string{"demo://x": "demo", "DEMO:x": "demo", "a+b-c.2:x": "a+b-c.2", "z09:x": "z09", "": "", ":x": "", "x": "", "{s}://x": "", "2a:x": "", "a/b:x": "", "a[:x": "", "a@:x": "", "a`:x": ""} {
		if got := Scheme(uri); got != want {
			t.Errorf("scheme of %q is %q, want %q", uri, got, want)
		}
	}
}

// A public URI leads back, and it is a URI to others if the server's is one.
func FuzzPublicURI(f *testing.F) {
	for _, uri := range []string{"demo://x/1", "file:///a?b#c", "urn:a:b", "a b", "{+x}", "http://[::1]:80/", "ui://x/y"} {
		f.Add(uri)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		public := PublicURI("my_docs", uri)
		if server, got, ok := SplitURI(public); !ok || server != "my_docs" || got != uri {
			t.Errorf("%q is %q of %q, %v; want %q", public, got, server, ok, uri)
		}
		if u, err := url.Parse(uri); err != nil || !u.IsAbs() || u.Opaque != "" { // package url does not look into opaque parts
			return
		}
		if u, err := url.Parse(public); err != nil || u.Scheme != "dragoman+my.docs" && !strings.HasPrefix(public, "ui://dragoman+my_docs/") {
			t.Errorf("%q of %q: %v", public, uri, err)
		}
	})
}
