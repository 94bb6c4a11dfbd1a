package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"dragoman/internal/app"
	"dragoman/internal/config"
	"dragoman/internal/testkit"
)

// probed runs dragoman probe at a server and returns what it prints to its two streams.
func probed(t *testing.T, u *upstream, asJSON bool) (out, errs string) {
	t.Helper()
	cfg, err := config.LoadConfig(config.LoadOptions{File: testkit.WriteFile(t, "probe.toml", u.toml("probe_timeout = \"5s\""))})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	var logs testkit.LockedBuffer
	if err := app.RunProbe(t.Context(), cfg, app.Streams{Out: &text, Err: &logs}, asJSON, testkit.Patient); err != nil {
		t.Fatal(err)
	}
	return text.String(), logs.String()
}

// dragoman probe asks for the lists of what the server declares, and says what they have: how much, the first names, and how long it took.
func TestProbeShowsWhatIsOffered(t *testing.T) {
	for _, kind := range []string{"modern", "legacy", "modern-stdio", "legacy-stdio", "sse"} {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			u.on("tools/list", func(c *call) {
				if strings.Contains(c.body, `"cursor"`) {
					c.result(`{"tools":[{"name":"last","inputSchema":{"type":"object"}}]}`)
					return
				}
				names := []string{`{"name":"a\u200b\u202e\u001b[2J","inputSchema":{"type":"object"}}`}
				for i := range 30 {
					names = append(names, fmt.Sprintf(`{"name":"tool%d","inputSchema":{"type":"object"}}`, i))
				}
				c.result(`{"tools":[` + strings.Join(names, ",") + `],"nextCursor":"c"}`)
			})
			u.on("prompts/list", func(c *call) { c.result(`{"prompts":[]}`) })
			u.on("resources/list", func(c *call) { c.result(`{"resources":[{"uri":"demo://one","name":"one"}]}`) })
			out, errs := probed(t, u, false)
			if !matches("…\noffers         32 tools, in … ms: a\\u200b\\u202e\\u001b[2J, tool0, tool1, …, tool18 and 12 more\n…1 resource, in … ms: demo://one\n…0 prompts, in … ms\n…", out) {
				t.Errorf("%s", out)
			}
			mentions(t, errs, ": tools/list\n", ": resources/list\n", ": prompts/list\n")
			out, _ = probed(t, u, true)
			var r struct {
				Offers []struct {
					What, Finding, Hint string
					Count               int
					Names               []string
					TookMs              *int64
				}
			}
			if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Offers) != 3 || r.Offers[0].What != "tools" || r.Offers[0].Count != 32 || len(r.Offers[0].Names) != 20 ||
				r.Offers[0].TookMs == nil || r.Offers[0].Finding != "" || r.Offers[1].What != "resources" || r.Offers[1].Names[0] != "demo://one" || r.Offers[2].Count != 0 {
				t.Errorf("%v %s", err, out)
			}
			if strings.Contains(out, "\u200b") {
				t.Error("a name is not made visible")
			}
		})
	}
}

// A list that fails is a finding with a hint. The probe goes on.
func TestProbeListsThatFail(t *testing.T) {
	u := newUpstream(t, "legacy")
	u.on("tools/list", func(c *call) { c.error(200, `{"code":-32603,"message":"the database\u202e is away"}`) })
	u.on("resources/list", func(c *call) { c.error(200, `{"code":-32601,"message":"no"}`) })
	u.on("prompts/list", func(c *call) { c.result(`{"prompts":[{"name":"p"}]}`) })
	out, _ := probed(t, u, false)
	if !matches("…\noffers         tools/list failed after … ms: the database\\u202e is away; …log…\n…resources/list failed after … ms: …not declare the capability resources\n…1 prompt, in … ms: p\n…", out) {
		t.Errorf("%s", out)
	}
	out, _ = probed(t, u, true)
	mentions(t, out, `"what": "tools"`, `"finding": "the database\u202e is away"`, `"hint": "`)
}
