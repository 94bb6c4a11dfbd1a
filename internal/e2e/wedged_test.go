//go:build unix

package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"dragoman/internal/testkit"
	"dragoman/policies/health"
)

const impatient = "tool_timeout = 1\n"

// pidIn returns the process id in an answer of the fallible server; 0 if there is none.
func pidIn(res *response) int {
	m := regexp.MustCompile(`"pid":(\d+)`).FindStringSubmatch(res.body)
	if m == nil {
		return 0
	}
	pid, _ := strconv.Atoi(m[1])
	return pid
}

// A child that is stopped, and so neither answers nor ends, is replaced: after three silent calls it is asked for a sign of life.
func TestStoppedChildIsReplaced(t *testing.T) {
	for _, server := range []string{"legacy", "modern"} {
		for _, client := range []string{"legacy", "modern"} {
			t.Run(client+" client, "+server+" server", func(t *testing.T) {
				t.Parallel()
				r := startRig(t, impatient+fallibleToml(t, server, "/no/such/file", "health_check_timeout = \"1s\""), true)
				c := newCrashClient(r, client)
				ctx, cancel := context.WithTimeout(t.Context(), 3*testkit.Patient)
				defer cancel()
				call := func(tool string) *response {
					t.Helper()
					res, err := c.call(ctx, "1"+strconv.Itoa(int(time.Now().UnixNano()%1e9)), tool)
					if err != nil {
						t.Fatal(err)
					}
					return res
				}
				first := pidIn(call("ok"))
				if first == 0 {
					t.Fatal("no process id")
				}
				stopped := time.Now()
				for _, tool := range []string{"stop", "ok", "ok"} {
					if f := failureOf(t, call(tool)); f.Error.Data.Code != "upstream_timeout" {
						t.Errorf("%s: %+v", tool, f)
					}
				}
				d := r.h.Targets.Named("default").Dialer
				if s := r.state("default"); s.State != health.Degraded {
					t.Errorf("the state is %s", s.State)
				}
				testkit.Eventually(t, "the child is given up", func() bool { return d.Stats().Crashes == 1 })
				if client == "legacy" && server == "legacy" { // as after a crash
					if res := call("ok"); res.status != 404 {
						t.Errorf("%d %s", res.status, res.body)
					}
					c = newCrashClient(r, client)
				}
				second := pidIn(call("ok"))
				if took := time.Since(stopped); second == 0 || second == first || took > 8*time.Second {
					t.Errorf("process %d after %d, served again after %v", second, first, took)
				}
				if n := strings.Count(r.logs.String(), `"silent_for":"`); n != 1 || !strings.Contains(r.logs.String(), "its process is killed, and the next call starts another") {
					t.Errorf("%d warnings of the replacement", n)
				}
				testkit.Eventually(t, "the stopped process has gone", func() bool { return syscall.Kill(first, 0) == syscall.ESRCH })
				if s := r.state("default"); s.State != health.Connected {
					t.Errorf("the state is %s", s.State)
				}
			})
		}
	}
}

// Clients that leave before the tool's time is over show the silence too.
func TestStoppedChildIsReplacedForImpatientClients(t *testing.T) {
	t.Parallel()
	r := startRig(t, fallibleToml(t, "modern", "/no/such/file", "health_check_timeout = \"1s\""), true)
	c := newCrashClient(r, "modern")
	call := func(id, tool string) (*response, error) {
		ctx, leave := context.WithTimeout(t.Context(), 3500*time.Millisecond) // Dragoman counts a silence of 3 s and more
		defer leave()
		return c.call(ctx, id, tool)
	}
	for i, tool := range []string{"stop", "ok", "ok"} {
		if res, err := call(fmt.Sprint(i), tool); err == nil {
			t.Errorf("%+v", res)
		}
	}
	testkit.Eventually(t, "it is served again", func() bool { // a call that came meanwhile may be lost
		res, err := call("7", "ok")
		return err == nil && pidIn(res) != 0
	})
	testkit.Eventually(t, "the log says why", func() bool {
		return strings.Contains(r.logs.String(), `the upstream server \"default\" is replaced: it was silent in 3 calls in a row, and gave no sign of life within 1s (upstreams.default.health_check_timeout)`)
	})
}

// A child that answers a ping lives, whatever it does with calls.
func TestSilentToolsDoNotEndAServer(t *testing.T) {
	for _, server := range []string{"legacy", "modern"} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			r := startRig(t, impatient+fallibleToml(t, server, "/no/such/file", "health_check_timeout = \"1s\""), true)
			call := newCrashClient(r, "modern").caller(t)
			first := pidIn(call("ok"))
			for range 5 {
				if res := call("hang"); !strings.Contains(res.body, "upstream_timeout") {
					t.Errorf("%s", res.body)
				}
			}
			if pid := pidIn(call("ok")); pid == 0 || pid != first || r.h.Targets.Named("default").Dialer.Stats().Crashes != 0 {
				t.Errorf("process %d after %d", pid, first)
			}
		})
	}
}
