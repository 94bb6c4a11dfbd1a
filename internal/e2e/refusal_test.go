//go:build unix

package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"dragoman/internal/app"
	"dragoman/internal/config"
	"dragoman/internal/testkit"
	"dragoman/proxy"
)

// A server that wants credentials is no server of unknown revision: the error says what it wants, whatever the form of the refusal, and
// the server is in error.
func TestRefusalAtTheFirstContact(t *testing.T) {
	const key = "upstreams.default."
	for _, tt := range []struct {
		name         string
		status       int
		header, body string
		want         proxy.Fault
		parts        []string
	}{
		{"401", 401, "WWW-Authenticate: Bearer", `{"error":"invalid_token"}`, proxy.Refused, []string{"HTTP 401", "invalid_token", key + "headers"}},
		{"401 without a body", 401, "", "", proxy.Refused, []string{"HTTP 401", key + "headers"}},
		{"401 with a page", 401, "Content-Type: text/html", "<html><title>Sign in</title>", proxy.Refused, []string{"HTTP 401", `an HTML page with the title "Sign in"`, key + "headers"}},
		{"403", 403, "", "no", proxy.Refused, []string{"HTTP 403: no", key + "headers"}},
		{"407", 407, "Proxy-Authenticate: Basic", "", proxy.Refused, []string{"HTTP 407", key + "proxy", "a proxy on the way"}},
		{"a redirect to sign in", 302, "Location: https://user:pw@login.example.com/start?state=hidden#x", "", proxy.Refused,
			[]string{"HTTP 302, a redirect to https://login.example.com/start", key + "headers", key + "url"}},
		{"a redirect to another address", 308, "Location: /mcp/", "", proxy.EraUnknown, []string{"HTTP 308, a redirect to /mcp/", key + "url"}},
		{"a page", 200, "Content-Type: text/html", "\n<!DOCTYPE html><html><head><title>Wel\ncome</title>", proxy.BadAnswer,
			[]string{`an HTML page with the title "Wel come"`, key + "url", key + "headers"}},
		{"another path", 404, "", "nothing here", proxy.EraUnknown, []string{"HTTP 404: nothing here", "is the path of " + key + "url right"}},
		{"a failure", 500, "", "boom", proxy.EraUnknown, []string{"HTTP 500: boom", "its own log"}},
		{"a failure that is too long", 500, "Content-Length: 100000", strings.Repeat("boom ", 20_000), proxy.EraUnknown, []string{"HTTP 500: a body of more than 65536 bytes"}},
		{"something else", 200, "", `{"hello":1}`, proxy.EraUnknown, []string{"is it an MCP server?", key + "transport"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			base := newTestServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if name, value, ok := strings.Cut(tt.header, ": "); ok {
					w.Header().Set(name, value)
				}
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			}))
			r := startRig(t, "[upstreams.default]\nurl = \""+base+"/mcp\"\n", false)
			_, err := r.h.Targets.All[0].Both(t.Context())
			if !proxy.IsFault(err, tt.want) {
				t.Fatalf("%v, want %s", err, tt.want.Name)
			}
			mentions(t, err.Error(), tt.parts...)
			if strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "pw") {
				t.Errorf("a secret of the redirect is shown: %v", err)
			}
			r.h.Probe(t.Context(), make(chan error, 1))
			testkit.Eventually(t, "it is in error", func() bool { return r.h.Targets.All[0].State().State == "ERROR" })
			mentions(t, r.logs.String(), `"target":"`+base+`/mcp"`)
		})
	}
}

// A probe of a server that never answers ends at its limit, and says so.
func TestProbeEndsAtItsLimit(t *testing.T) {
	t.Parallel()
	base := newTestServer(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	cfg, err := config.LoadConfig(config.LoadOptions{File: testkit.WriteFile(t, "c.toml", "[upstreams.default]\nurl = \""+base+"/mcp\"\n")})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	err = app.RunProbe(t.Context(), cfg, app.Streams{Out: io.Discard, Err: io.Discard}, false, 200*time.Millisecond)
	if err == nil || time.Since(began) > 4*time.Second {
		t.Fatalf("%v after %v", err, time.Since(began))
	}
	mentions(t, err.Error(), base+"/mcp", "within 200ms", "--timeout")
}
