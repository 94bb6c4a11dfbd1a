//go:build unix

package main

import (
	"strings"
	"testing"
)

// Tracing is switched on, moved and switched off while the proxy runs; sessions go on, and what waits for the old collector gets there.
func TestTraceReloaded(t *testing.T) {
	one, two, u := newCollector(t), newCollector(t), newUpstream(t, "legacy")
	answering(u)
	r := startRig(t, u.toml(""), true)
	session := r.open("2025-11-25", "{}")
	slow := strings.Replace(one.toml(""), `"10ms"`, `"1m"`, 1)
	for _, x := range []struct {
		toml string
		at   *collector
	}{{slow, nil}, {two.toml(""), two}, {"", nil}} {
		r.reload(reloadApplied, x.toml+u.toml(""))
		u.forget()
		if res := r.callLegacy(session); !strings.Contains(res.body, "content") {
			t.Fatal(res.body)
		}
		meta, _ := toldOf(u.all("tools/call")[0])
		if traced := x.toml != ""; traced != (meta[0] != "") {
			t.Errorf("%q: the server was told %q", x.toml, meta)
		}
		if x.at != nil {
			_, _ = x.at.pair("tools/call a")
		}
	}
	_, _ = one.pair("tools/call a")
	if n := len(u.all("initialize")); n != 0 {
		t.Errorf("%d sessions were opened anew", n)
	}
}
