package target

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"dragoman/adapters/catalogue"
	"dragoman/internal/config"
	"dragoman/internal/testkit"
	"dragoman/policies/health"
	"dragoman/proxy"
)

// three are servers that are not asked for anything, and whose callers are.
const three = `
[security]
api_keys_enabled = true
[security.api_keys.k]
hashes = ["sha256:0000000000000000000000000000000000000000000000000000000000000000"]
[upstreams.a]
url = "http://127.0.0.1:1/mcp"
[upstreams.b]
url = "http://127.0.0.1:1/mcp"
tasks = "drive"
access."ann".deny_tools = ["x"]
access."*".deny_tools = ["y"]
[upstreams.spare]
url = "http://127.0.0.1:1/mcp"
`

// Several servers are one where no server is named, and in groups; a fallback is no member.
func TestEndpoints(t *testing.T) {
	for toml, want := range map[string]map[string]string{
		"[upstreams.a]\nurl = \"http://127.0.0.1:1/mcp\"\n": {"": "a", "a": "a", "groups/g": "-"},
		three:                       {"": "several a b spare", "b": "b", "none": "-"},
		"merge = \"never\"" + three: {"": "-", "a": "a"},
		"[groups.all]\n[groups.g]\nservers = [\"b\"]\n" + strings.Replace(three, "tasks =", "fallback = \"spare\"\ntasks =", 1): {"": "several a b", "groups/g": "several b", "groups/all": "several a b", "spare": "spare"},
	} {
		r := build(t, toml)
		for name, servers := range want {
			got := strings.Join(r.Behind(name), " ")
			if r.Several(name) {
				got = "several " + got
			}
			if r.Router.Refuse(name) != nil && got == "" {
				got = "-"
			}
			if got != servers {
				t.Errorf("%s\nbehind %q is %s, want %s", toml, name, got, servers)
			}
		}
	}
}

// A call at several servers reaches the member that it names, and only through a group that has the tool.
func TestCallsAtEndpoints(t *testing.T) {
	a, b := newServer(t), newServer(t)
	r := build(t, fmt.Sprintf("[groups.g]\nservers = [\"a\"]\ntools = [\"a.t\"]\n[upstreams.a]\nurl = %q\n[upstreams.b]\nurl = %q\naccess.\"*\".deny_tools = [\"u\"]\n", a.URL+"/mcp", b.URL+"/mcp"))
	for _, test := range []struct{ at, tool, want string }{
		{"", "a.t", "/mcp tools/call"}, {"", "b.t", "-"}, {"groups/g", "a.t", "/mcp tools/call"}, {"groups/g", "a.u", "refused"}, {"groups/g", "b.t", "refused"}, {"", "b.u", "refused"}, {"a", "t", "/mcp tools/call"},
	} {
		a.heard()
		_, err := r.call(test.at, test.tool)
		got := "-"
		for _, line := range a.heard() {
			if strings.Contains(line, "tools/call") {
				got = line
			}
		}
		if err != nil {
			got = "refused"
		}
		if got != test.want {
			t.Errorf("%s at %q: %s, %v; want %s", test.tool, test.at, got, err, test.want)
		}
	}
	r.ReadLists()
	testkit.Eventually(t, "the lists", func() bool {
		s := r.Catalogue.Snapshot()
		return s.Server("a").Presence == catalogue.There && s.Server("b").Presence == catalogue.There
	})
	if s := r.Catalogue.Snapshot().Server("a"); s.Transport != "HTTP" || len(s.Lists[catalogue.Tools].Items) != 1 || s.Origin == nil {
		t.Errorf("%+v", s)
	}
}

// A server without endpoints of several has no catalogue.
func TestNoCatalogue(t *testing.T) {
	r := build(t, "[upstreams.a]\nurl = \"http://127.0.0.1:1/mcp\"\n")
	if r.ReadLists(); r.Catalogue != nil || r.Named("a").lists != nil {
		t.Errorf("there is a catalogue")
	}
	r.Named("a").recorded(&health.Report{State: health.Connected})
}

// What a reader of lists is told about a server follows from its configuration.
func TestListed(t *testing.T) {
	r := build(t, three+`
[upstreams.sse]
url = "http://127.0.0.1:1/sse"
transport = "sse"
[upstreams.told]
url = "http://127.0.0.1:1/mcp"
forward_headers = { X-Trace = "X-Trace", X-Token = "Authorization" }
[upstreams.traced]
url = "http://127.0.0.1:1/mcp"
forward_headers = { traceparent = "X-Trace" }
`)
	origins := map[string]string{}
	for name, transport := range map[string]string{"a": "HTTP", "sse": "SSE", "told": "HTTP", "traced": "HTTP"} {
		s := r.Named(name).listed(7)
		if s.Name != name || s.Transport != transport || s.Instance != 7 || s.Sleeps || (s.Contextual != nil) != (name == "told") {
			t.Errorf("%s: %+v", name, s)
		}
		origins[string(s.Origin)] += name
	}
	if len(origins) != 2 {
		t.Errorf("origins of servers at two addresses: %q", origins)
	}
	told := r.Named("told").listed(0).Contextual
	for header, want := range map[string]bool{"x-token": true, "x-other": false} {
		if got := told(proxy.Caller{Forwarded: &proxy.Forwarded{Headers: []proxy.Header{{Name: header, Value: "x"}}}}); got != want {
			t.Errorf("a caller with %s has lists of its own: %v", header, got)
		}
	}
	if told(proxy.Caller{}) {
		t.Error("a caller without headers has lists of its own")
	}
}

// A process that ends when it is idle is not woken to be asked for its lists; its command tells it from others.
func TestListedProcesses(t *testing.T) {
	r := build(t, three)
	one := *r.Named("a")
	for i, up := range []config.Upstream{{Command: []string{"x", "y"}}, {Command: []string{"x", "y"}, ProcessConfig: config.ProcessConfig{IdleExit: time.Second}}} {
		one.settings = &up
		if s := one.listed(0); s.Transport != "STDIO" || s.Sleeps != (i == 1) {
			t.Errorf("%+v", s)
		}
	}
}

// Members say whether callers are told apart there, and whether they drive tasks.
func TestMember(t *testing.T) {
	r := build(t, "[groups.g]\ntools = [\"a.t\"]\n"+three)
	for name, want := range map[string]string{"a": "false false false", "b": "true true true"} {
		m := r.member(r.Named(name), nil)
		if got := fmt.Sprint(m.Apart, m.Drives, m.Shown != nil); got != want || m.Name != name || m.Notice != nil {
			t.Errorf("%s: apart, drives, hides something: %s, want %s", name, got, want)
		}
	}
	if m := r.member(r.Named("a"), r.Config.Groups[0]); m.Notice == nil || m.Shown == nil {
		t.Errorf("in a group: %+v", m)
	}
}

// Strict lists are a setting of all endpoints, or of a group.
func TestStrictEndpoints(t *testing.T) {
	for toml, want := range map[string]string{"": "false false", "listing.strict = true\n": "true true", "[groups.g]\nstrict = true\n": "false true"} {
		if !strings.Contains(toml, "[groups.g]") {
			toml += "[groups.g]\n"
		}
		r := build(t, toml+three)
		r.ReadLists() // of which none can be read
		var got []string
		for _, at := range []string{"", "groups/g"} {
			_, err := r.list(at)
			got = append(got, fmt.Sprint(err != nil))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: a list that is not up to date is an error: %v, want %s", toml, got, want)
		}
	}
}

// The file of the catalogue is in the directory for what is kept over a restart, with a name of its own for each configuration.
func TestStateDir(t *testing.T) {
	home, err := os.UserHomeDir()
	if err != nil {
		t.Skip(err)
	}
	for _, test := range []struct{ systemd, xdg, want string }{
		{"/var/lib/d", "/x", "/var/lib/d"}, {"/var/lib/d:/other", "", "/var/lib/d"}, {"", "/x", "/x/dragoman"}, {"", "x", filepath.Join(home, ".local/state/dragoman")}, {":", "", filepath.Join(home, ".local/state/dragoman")},
	} {
		got, err := stateDir(func(key string) string {
			return map[string]string{"STATE_DIRECTORY": test.systemd, "XDG_STATE_HOME": test.xdg}[key]
		})
		if err != nil || got != filepath.FromSlash(test.want) {
			t.Errorf("%+v: %s, %v", test, got, err)
		}
	}
	abs, err := filepath.Abs("c.toml")
	if err != nil {
		t.Fatal(err)
	}
	if catalogueFile("c.toml") != catalogueFile(abs) || catalogueFile("c.toml") == catalogueFile("d.toml") {
		t.Error("a configuration's file is not its own")
	}
}

// The catalogue is kept in its file; one that cannot be used is replaced by memory, with a warning.
func TestCataloguePaths(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("STATE_DIRECTORY", filepath.Join(dir, "state"))
	file := testkit.WriteFile(t, "file", "")
	for path, want := range map[string]struct {
		at     string // a pattern
		warned bool
	}{
		filepath.Join(dir, "new", "c.db"): {filepath.Join(dir, "new", "c.db"), false},
		"":                                {filepath.Join(dir, "state", "catalogue-*.db"), false},
		filepath.Join(file, "c.db"):       {"", true},
		"memory":                          {"", false},
	} {
		r := build(t, fmt.Sprintf("catalogue.path = %q\n%s", path, three))
		if len(r.Catalogue.Snapshot().Servers) != 0 {
			t.Errorf("%q: there are servers before they are read", path)
		}
		if found, _ := filepath.Glob(want.at); (len(found) == 1) != (want.at != "") {
			t.Errorf("%q: at %s are %v", path, want.at, found)
		}
		if warned := strings.Contains(r.logged.String(), "the catalogue is kept in memory"); warned != want.warned {
			t.Errorf("%q: logged %s", path, &r.logged)
		}
	}
}

// The catalogue has the state of each server as its monitor reports it; when it was connected last stays known.
func TestRecorded(t *testing.T) {
	r := build(t, three)
	r.Catalogue.Keep(map[string]catalogue.Kept{"a": {Transport: "HTTP"}})
	at := time.UnixMilli(1_800_000_000_000)
	for i, step := range []struct {
		report    health.Report
		connected time.Time
		answers   bool
	}{
		{health.Report{State: health.Connecting, Since: at}, time.Time{}, false},
		{health.Report{State: health.Connected, Since: at.Add(1), CheckedAt: at, Took: 3}, at.Add(1), true},
		{health.Report{State: health.Degraded, Since: at.Add(2), Failures: 2, LastError: "no"}, at.Add(1), true},
		{health.Report{State: health.Errored, Since: at.Add(3), Failures: 3}, at.Add(1), false},
	} {
		r.Named("a").recorded(&step.report)
		want := catalogue.Status{State: string(step.report.State), Since: step.report.Since, ConnectedAt: step.connected, CheckedAt: step.report.CheckedAt, ResponseTime: step.report.Took,
			ConsecutiveFailures: step.report.Failures, LastError: step.report.LastError}
		if got := r.Catalogue.Snapshot().Server("a").Status; got != want || r.Named("a").answers.Load() != step.answers {
			t.Errorf("%d: %+v, answers: %v", i, got, r.Named("a").answers.Load())
		}
	}
	r.Named("b").recorded(&health.Report{State: health.Connected}) // the catalogue does not know it yet
	if r.Catalogue.Snapshot().Server("b") != nil {
		t.Error("a report has made a server")
	}
}

// What reads the lists of a server learns from its monitor that it does not answer, and connects anew.
func TestListsOfAServerInError(t *testing.T) {
	s := newServer(t)
	r := build(t, fmt.Sprintf("merge = \"always\"\n[upstreams.a]\nurl = \"%s/mcp\"\n", s.URL))
	r.ReadLists()
	until := func(want catalogue.Presence) {
		t.Helper()
		for now := r.Catalogue.Snapshot(); now.Server("a").Presence != want; now = r.Catalogue.Snapshot() {
			select {
			case <-r.Catalogue.Changed(now.Version):
			case <-t.Context().Done():
				t.Fatal(t.Context().Err())
			}
		}
	}
	until(catalogue.There)
	r.Named("a").recorded(&health.Report{State: health.Connected})
	s.refuse(true)
	r.Named("a").recorded(&health.Report{State: health.Errored})
	until(catalogue.Away)
	s.refuse(false)
	r.Named("a").recorded(&health.Report{State: health.Connected})
	until(catalogue.There)
}

// Changes of a server's state are logged by how bad they are.
func TestLogState(t *testing.T) {
	for level, change := range map[string]health.Change{
		"info": {From: health.Connecting, To: health.Connected}, "warn": {From: health.Connected, To: health.Errored}, "debug": {From: health.Connecting, To: health.Errored, Again: true},
	} {
		var out bytes.Buffer
		tellState(zerolog.New(&out), "s", nil)(change)
		if got := out.String(); !strings.Contains(got, `"level":"`+level+`"`) || !strings.Contains(got, `"to":"`+string(change.To)+`"`) {
			t.Errorf("%+v: %s", change, got)
		}
	}
	var out bytes.Buffer
	if tellState(zerolog.New(&out), "s", nil)(health.Change{From: health.Connected, To: health.Degraded}); !strings.Contains(out.String(), `"level":"warn"`) {
		t.Errorf("degraded: %s", &out)
	}
}
