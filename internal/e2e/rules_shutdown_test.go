//go:build unix

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"dragoman/internal/testkit"
)

// process is Dragoman as a process, and its log.
type process struct {
	cmd   *exec.Cmd
	logs  *testkit.LockedBuffer
	ended chan struct{} // at the end of its standard error
}

func startProcess(t *testing.T, toml string) (p *process, base string) {
	t.Helper()
	return startFewFiles(t, 0, toml)
}

// startFewFiles is startProcess for a process that may have so many files open; 0: as many as we.
func startFewFiles(t *testing.T, files int, toml string) (p *process, base string) {
	t.Helper()
	p = &process{cmd: testkit.Self(t, "main", "serve", "--config", testkit.WriteFile(t, "p.toml", toml)), logs: &testkit.LockedBuffer{}, ended: make(chan struct{})}
	if files > 0 {
		p.cmd.Path, p.cmd.Args = "/bin/sh", append([]string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, files)}, p.cmd.Args...)
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the process
		defer close(p.ended)
		for s := bufio.NewScanner(stderr); s.Scan(); {
			_, _ = fmt.Fprintln(p.logs, s.Text())
		}
	}()
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); <-p.ended; _ = p.cmd.Wait() })
	address := regexp.MustCompile(`"mcp":\[?"(http://127\.0\.0\.1:\d+)/`)
	testkit.Eventually(t, "the address", func() bool { return address.MatchString(p.logs.String()) })
	return p, address.FindStringSubmatch(p.logs.String())[1]
}

// Seed 000, State Transitions: a signal begins the shutdown, which ends when the requests in flight have been answered.
func TestRulesShutdown(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run("rule 4.16 to SHUTTING_DOWN by "+signal.String(), func(t *testing.T) { ruleShutdown(t, signal) })
	}
}

func ruleShutdown(t *testing.T, signal os.Signal) {
	u := newUpstream(t, "modern")
	u.on("tools/list", func(c *call) {
		c.result(`{"resultType":"complete","tools":[{"name":"a","inputSchema":{"type":"object"}}]}`)
	})
	began, free := u.hold(t)
	p, base := startProcess(t, "listen = \"127.0.0.1:0\"\nadmin.listen = \"off\"\nlog.format = \"json\"\n"+u.toml(""))
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	r := &rig{t: t, base: base, http: &http.Client{Transport: transport}}
	answer := make(chan *response, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), testkit.Patient)
		defer cancel()
		res, err := r.do(ctx, "POST", "/call-tool", `{"tool":"a","arguments":{}}`, "Content-Type", jsonType)
		if err != nil {
			res = &response{body: err.Error()}
		}
		answer <- res
	}()
	testkit.Receive(t, "the call", began)
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "SHUTTING_DOWN", func() bool { return strings.Contains(p.logs.String(), `"to":"SHUTTING_DOWN"`) })
	if logs := p.logs.String(); strings.Contains(logs, "STOPPED") || len(answer) > 0 {
		t.Errorf("it has not waited for what is in flight:\n%s", logs)
	}
	free()
	if res := testkit.Receive(t, "the answer", answer); res.status != 200 || !strings.Contains(res.body, `"text":"held"`) {
		t.Errorf("%d %s", res.status, res.body)
	}
	t.Run("rule 4.17 to STOPPED when what is in flight is answered", func(t *testing.T) {
		testkit.Receive(t, "the end", p.ended)
		if err := p.cmd.Wait(); err != nil {
			t.Error(err)
		}
		if logs := p.logs.String(); !regexp.MustCompile(`(?s)"to":"SHUTTING_DOWN".*"from":"SHUTTING_DOWN","to":"STOPPED"`).MatchString(logs) {
			t.Errorf("the states are not logged:\n%s", logs)
		}
	})
}
