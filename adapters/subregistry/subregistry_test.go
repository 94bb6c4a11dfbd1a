package subregistry

import (
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

func TestVersions(t *testing.T) {
	for text, want := range map[string]string{"1.2.3": "1.2.3", "v2": "v2", "2026.8.31": "2026.8.31", "1.0.0-rc.1+b2": "1.0.0-rc.1+b2", "": "0.0.0", "latest": "0.0.0", "^1.2": "0.0.0", "1.x": "0.0.0", "1.x.2": "0.0.0", "1 0": "0.0.0", "1\u202e": "0.0.0",
		"v": "0.0.0", strings.Repeat("1", 65): "0.0.0"} {
		if got := version(text); got != want {
			t.Errorf("%q: %q; want %q", text, got, want)
		}
	}
}

func TestHosts(t *testing.T) {
	for text, want := range map[string]bool{"example.com": true, "example.com:8080": true, "127.0.0.1": true, "[::1]": true, "[::1]:8080": true, "a_b": true, "": false, ":80": false, "a:b": false, "a/b": false, "a@b": false, "[::1": false, "[127.0.0.1]": false,
		"::1": false, "[::1%25eth0]": false, "a b": false, "example.com:99999": false, "m\u0435.example": false, strings.Repeat("x", 300): false} {
		if validHost(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// A server has the time of its last change, which stays as long as it is the same.
func TestChanges(t *testing.T) {
	var c Changes
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s Server, minutes int) int {
		return int(c.of(&s, begin.Add(time.Duration(minutes)*time.Minute)).Sub(begin).Minutes())
	}
	one, two := Server{Name: "a", Version: "1"}, Server{Name: "b", Version: "1", Since: begin.Add(-time.Hour)}
	for _, test := range []struct {
		server      Server
		asked, want int
	}{{one, 0, 0}, {two, 1, -60}, {one, 2, 0}, {Server{Name: "a", Version: "2"}, 3, 3}, {Server{Name: "a", Version: "2"}, 4, 3}, {two, 5, -60}, {Server{Name: "c"}, 6, 0}} {
		if got := at(test.server, test.asked); got != test.want {
			t.Errorf("%+v at %d: %d; want %d", test.server, test.asked, got, test.want)
		}
	}
}

// Descriptions are never empty, and never longer than registries take.
func TestDescriptions(t *testing.T) {
	a := &api{opt: Options{Service: "gate"}}
	for text, want := range map[string]string{"": "x, an MCP server behind gate", " two\n words ": "two words", strings.Repeat("é", 101): strings.Repeat("é", 99) + "…"} {
		if got := a.described(&Server{Name: "x", Description: text}); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// Whatever is asked, it is answered or refused.
func FuzzQuery(f *testing.F) {
	f.Add("limit=5&cursor=YQ&search=x&version=latest&updated_since=2026-01-01T00:00:00Z")
	f.Add("limit=-1&limit=2")
	f.Fuzz(func(t *testing.T, text string) {
		var args fasthttp.Args
		args.Parse(text)
		if q, failed := asked(&args); failed == nil && (q.limit < 1 || q.limit > maxLimit || len(q.search) > 3*maxParameter) {
			t.Errorf("%+v", q)
		}
	})
}
