package names

import (
	"strings"
	"testing"
)

func TestPattern(t *testing.T) {
	for _, test := range []struct {
		template string
		yes, no  []string
	}{
		{"demo://x/{id}", []string{"demo://x/1", "demo://x/a%20b"}, []string{"demo://x/1/2", "demo://y/1", "demo://x/1?q", "xdemo://x/1"}},
		{"file:///{+path}", []string{"file:///a/b", "file:///"}, []string{"file://a/b"}},
		{"demo://x{?a,b}", []string{"demo://x", "demo://x?a=1&b=2"}, []string{"demo://x/1", "demo://x#a"}},
		{"demo://x{/a*}", []string{"demo://x/a/b", "demo://x"}, []string{"demo://xa"}},
		{"demo.x/{id}.json", []string{"demo.x/1.json"}, []string{"demoyx/1.json", "demo.x/1xjson"}},
		{"demo://x{#frag}{.ext}{;p}{&q}", []string{"demo://x", "demo://x#a"}, []string{"demo://y"}},
	} {
		p := Pattern(test.template)
		for _, uri := range test.yes {
			if !p.MatchString(uri) {
				t.Errorf("%s is no expansion of %s", uri, test.template)
			}
		}
		for _, uri := range test.no {
			if p.MatchString(uri) {
				t.Errorf("%s is an expansion of %s", uri, test.template)
			}
		}
	}
	if Pattern(strings.Repeat("x", maxTemplate)) == nil || Pattern(strings.Repeat("x", maxTemplate+1)) != nil {
		t.Error("a template without a bound")
	}
}
