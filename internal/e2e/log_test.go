//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dragoman/internal/app/logging"
	"dragoman/internal/testkit"
)

// Each request has its line in the access log although lines are written together, also requests right before the end.
func TestAccessLogIsWholeAtTheEnd(t *testing.T) {
	u := newUpstream(t, "modern")
	u.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
	const settings = "listen = \"127.0.0.1:0\"\nadmin.listen = \"off\"\nlog.format = \"json\"\nlog.access = \"all\"\n"
	p, base := startProcess(t, settings+u.toml(""))
	r := &rig{t: t, base: base, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	const callers, each = 8, 50
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			for j := range each {
				tool := fmt.Sprintf("t%d-%d", i, j)
				res, err := r.do(t.Context(), "POST", "/mcp", modernCall("1", tool, ""), modernHeaders("tools/call", tool)...)
				if err != nil || res.status != 200 {
					t.Errorf("%+v %v", res, err)
				}
			}
		})
	}
	group.Wait()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, "the end", p.ended)
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	tools := map[string]int{}
	for text := range strings.Lines(p.logs.String()) {
		var line struct{ Level, Request, Method, Era, About, Server, Outcome, Time, Message string }
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%v: %q", err, text)
		}
		if line.Outcome == "" {
			continue
		}
		if line.Outcome != "ok" || line.Level != "info" || line.Method != "tools/call" || line.Era != "modern" ||
			line.Server == "" || line.Request == "" || line.Message == "" {
			t.Errorf("%s", text)
		}
		if _, err := time.Parse(logging.TimeLayout, line.Time); err != nil {
			t.Errorf("%v: %s", err, text)
		}
		tools[line.About]++
	}
	for i := range callers {
		for j := range each {
			if n := tools[fmt.Sprintf("t%d-%d", i, j)]; n != 1 {
				t.Errorf("call %d of caller %d has %d lines", j, i, n)
			}
		}
	}
}
