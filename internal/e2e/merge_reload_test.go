package e2e

import (
	"strings"
	"testing"

	"dragoman/internal/app"
	"dragoman/internal/testkit"
)

// How lists are kept, and when a part of them is an error, changes under the sessions at several servers; other names end them, since clients
// hold the old ones.
func TestReloadOfListings(t *testing.T) {
	a, b := newUpstream(t, "legacy"), newUpstream(t, "modern")
	toml := strings.Replace(a.toml(""), "default", "a", 1) + strings.Replace(b.toml(""), "default", "b", 1) + "[groups.g]\n"
	r := startRig(t, toml, true)
	sessions := map[string]string{"": r.open("2025-11-25", "{}")}
	group := *r
	group.base += "/groups/g"
	sessions["/groups/g"] = group.open("2025-11-25", "{}")
	ping := func(at string) int {
		return r.must("POST", at+"/mcp", `{"jsonrpc":"2.0","id":"p","method":"ping","params":{}}`, legacyHeaders(sessions[at])...).status
	}
	for _, listing := range []string{"[listing]\ngrace = \"7m\"\n", "[listing]\ngrace = \"0s\"\nstrict = true\n", "[listing]\ngrace = \"1h\"\n"} {
		r.reload(app.ReloadApplied, listing+toml)
		for at := range sessions {
			if got := ping(at); got != 200 {
				t.Errorf("%q, in a session at %q: %d", listing, at, got)
			}
		}
		if strict := strings.Contains(listing, "true"); strict {
			r.h.Targets.Catalogue.SetPresence("b", 0)
			got := r.must("POST", "/mcp", modernBody(1, "tools/list", ""), modernHeaders("tools/list", "")...)
			if !strings.Contains(got.body, "the lists of these servers are not up to date: b") {
				t.Errorf("strict: %s", got.body)
			}
		}
	}
	r.reload(app.ReloadApplied, "[listing]\ngrace = \"1h\"\n"+strings.Replace(toml, "[groups.g]\n", "[groups.g]\nseparator = \"__\"\n", 1))
	testkit.Eventually(t, "the end of the session at other names", func() bool { return ping("/groups/g") == 404 })
	if got := ping(""); got != 200 {
		t.Errorf("in a session whose names stay: %d", got)
	}
}

// With no time in which a client waits for servers that nothing is known of, nobody waits for a silent one: it is still asked for the first time
// after ten lists, each of which would wait for 5 s.
func TestNoFirstWait(t *testing.T) {
	known := strings.Replace(newUpstream(t, "modern").toml(""), "default", "known", 1)
	silent := "[upstreams.silent]\nurl = \"http://127.0.0.1:" + silentPort(t) + "/mcp\"\nprobe_timeout = \"1m\"\n"
	r := startRig(t, "catalogue.path = \"memory\"\nlisting.first_wait = \"0s\"\n"+known+silent, false)
	r.h.Targets.ReadLists()
	for range 10 {
		if got := r.must("POST", "/mcp", modernBody(1, "tools/list", ""), modernHeaders("tools/list", "")...); got.status != 200 {
			t.Fatalf("the list: %+v", got)
		}
	}
	if text := r.logs.String(); strings.Contains(text, "cannot be refreshed") {
		t.Errorf("the first attempt at the silent server, which takes 30 s, has ended:\n%s", text)
	}
}
