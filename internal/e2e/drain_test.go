//go:build unix

package e2e

import (
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"dragoman/internal/testkit"
)

// During drain_delay it is not ready but serves: each answer closes its connection, and new connections are accepted. After that none is.
func TestDrainDelay(t *testing.T) {
	u := newUpstream(t, "modern")
	u.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
	p, base := startProcess(t, "listen = \"127.0.0.1:0\"\nadmin.listen = \"127.0.0.1:0\"\nlog.format = \"json\"\ndrain_delay = \"2s\"\n"+u.toml(""))
	found := regexp.MustCompile(`"admin":"(http://127\.0\.0\.1:\d+)"`).FindStringSubmatch(p.logs.String())
	if found == nil {
		t.Fatal(p.logs)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	clients := &http.Client{Transport: transport}
	r, admin := &rig{t: t, base: base, http: clients}, &rig{t: t, base: found[1], http: clients}
	ask := func() *response {
		return r.must("POST", "/mcp", modernCall("1", "x", ""), modernHeaders("tools/call", "x")...)
	}
	testkit.Eventually(t, "it is ready", func() bool { return admin.must("GET", "/readyz", "").status == 200 })
	if res := ask(); res.status != 200 {
		t.Fatalf("%+v", res)
	}
	began := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "it is not ready", func() bool { return admin.must("GET", "/readyz", "").status == 503 })
	mentions(t, admin.must("GET", "/readyz", "").body, "it is shutting down")
	served := 0
	for time.Since(began) < time.Second {
		res := ask()
		if res.status != 200 || !strings.Contains(res.body, `"content"`) {
			t.Fatalf("%+v", res)
		}
		served++
	}
	if served == 0 {
		t.Error("nothing was served")
	}
	testkit.Receive(t, "the end", p.ended)
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("it has ended after %v", took)
	}
	if _, err := r.do(t.Context(), "GET", "/health", ""); err == nil {
		t.Error("a connection is still open")
	}
}
