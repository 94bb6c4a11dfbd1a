//go:build unix

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"dragoman/internal/app"
	"dragoman/internal/testkit"
)

// Tracing is switched on, moved and switched off while the proxy runs: sessions go on, and spans that wait for the old collector reach it.
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
		r.reload(app.ReloadApplied, x.toml+u.toml(""))
		u.forget()
		if res := r.callLegacy(session); !strings.Contains(res.body, "content") {
			t.Fatal(res.body)
		}
		meta, _ := traceOf(u.all("tools/call")[0])
		if traced := x.toml != ""; traced != (meta[0] != "") {
			t.Errorf("%q: the server got %q", x.toml, meta)
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

// A call during a reload has its audit line and its spans, at their current destination.
func TestReloadWhileACallRuns(t *testing.T) {
	one, two, u := newCollector(t), newCollector(t), newUpstream(t, "legacy")
	answering(u)
	begun, release := make(chan *call, 1), make(chan struct{})
	u.on("tools/call", func(c *call) {
		begun <- c
		<-release
		c.result(`{"content":[]}`)
	})
	dir := t.TempDir()
	config := func(c *collector, file string) string {
		return fmt.Sprintf("[audit]\nenabled = true\nfile = %q\n", filepath.Join(dir, file)) + c.toml("") + u.toml("")
	}
	r := startRig(t, config(one, "one"), true)
	answers := make(chan *response, 1)
	go callTo(t.Context(), &crashClient{r: r, era: "modern"}, "1", "a", answers)
	testkit.Receive(t, "the call at the server", begun)
	r.reload(app.ReloadApplied, config(two, "between"))
	r.reload(app.ReloadApplied, config(two, "two"))
	r.h.Retiring.Wait() // the rest has ended
	close(release)
	if res := testkit.Receive(t, "the answer", answers); res.status != 200 {
		t.Fatalf("%d %s", res.status, res.body)
	}
	_, _ = two.pair("tools/call a")
	testkit.Eventually(t, "the line of the audit trail", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "two"))
		return strings.Count(string(text), "\n") == 1
	})
	if n := len(one.find(tracepb.Span_SPAN_KIND_SERVER, "tools/call a")); n != 0 {
		t.Errorf("%d spans at the collector before", n)
	}
	if n := r.sum("dragoman_audit_lines_total", "outcome", "dropped"); n != 0 {
		t.Errorf("%v lines dropped", n)
	}
}
