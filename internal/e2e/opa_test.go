package e2e

import (
	"flag"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

var opaPath = flag.String("opa", "", "the program opa, for TestOpenPolicyAgent; an absolute path")

// startOPA runs an Open Policy Agent with a policy at an address of its own notation, and waits until it listens.
func startOPA(t *testing.T, network, address, policy string) (stop func()) {
	t.Helper()
	at := address
	if network == "unix" {
		at = "unix://" + address
	}
	var said testkit.LockedBuffer
	c := exec.CommandContext(t.Context(), *opaPath, "run", "--server", "--disable-telemetry", "--addr", at, testkit.WriteFile(t, "policy.rego", policy))
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	stop = func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("log of opa:\n%s", said.String())
		}
	})
	testkit.Eventually(t, "opa listens", func() bool {
		conn, err := net.Dial(network, address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return stop
}

// The example of the guide, by a real Open Policy Agent.
func TestOpenPolicyAgent(t *testing.T) {
	if *opaPath == "" {
		t.Skip("make opa runs it")
	}
	fences := testkit.FencesOf(t, "docs/security.md")
	fence := func(kind, has string) string {
		i := slices.IndexFunc(fences, func(f testkit.Fence) bool { return f.Kind == kind && strings.Contains(f.Text, has) })
		if i < 0 {
			t.Fatalf("docs/security.md has no %s with %s", kind, has)
		}
		return fences[i].Text
	}
	policy, hook := fence("rego", "package mcp"), fence("toml", "[policy_hook]")
	keys, key := keysToml("ci", "eve")
	servers := "[security]\napi_keys_enabled = true\n" + keys
	for name, kind := range map[string]string{"a": "modern", "b": "legacy"} {
		u := newUpstream(t, kind)
		u.on("tools/list", func(c *call) {
			c.result(`{"tools":[{"name":"drop","annotations":{"readOnlyHint":false},"inputSchema":{"type":"object"}},{"name":"keep","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object"}}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`)
		})
		u.on("tools/call", func(c *call) { c.result(`{"content":[],"resultType":"complete"}`) })
		servers += strings.Replace(u.toml(""), "default", name, 1)
	}
	const at = `"http://127.0.0.1:8181`
	if !strings.Contains(hook, at) {
		t.Fatalf("the example is for another address than %s: %s", at, hook)
	}
	free := testkit.Listen(t)
	tcp := free.Addr().String()
	_ = free.Close()
	socket := filepath.Join(t.TempDir(), "opa.sock")
	for network, address := range map[string]string{"tcp": tcp, "unix": socket} {
		stop := startOPA(t, network, address, policy)
		url := map[string]string{"tcp": `"http://` + address, "unix": `"unix:` + address + ":"}[network]
		r := startRig(t, servers+strings.Replace(hook, at, url, 1), true)
		ask := func(who *rig, tool, want string) {
			t.Helper()
			for _, w := range who.waysIn() {
				if got := w.ask("tools/call", fmt.Sprintf(`"name":%q,"arguments":{"token":"x"}`, tool)); !strings.Contains(got, want) {
					t.Errorf("%s, %s: %s, want %s", network, w.name, got, want)
				}
			}
		}
		for _, server := range []string{"a", "b"} {
			ask(r.as(key["ci"]), server+".drop", `"content":[]`)
			ask(r.as(key["eve"]), server+".keep", `"content":[]`)
			ask(r.as(key["eve"]), server+".drop", "the policy hook has denied this request: only ci may change things")
		}
		if n := r.sum("dragoman_policy_hook_answers_total", "source", "cached"); n == 0 {
			t.Error("no answer was kept by its ttl")
		}
		undefined := startRig(t, servers+strings.Replace(strings.Replace(hook, at, url, 1), "/mcp/decision", "/mcp/other", 1), true)
		ask(undefined.as(key["ci"]), "a.drop", "the policy hook has denied this request")
		wrong := startRig(t, servers+strings.Replace(strings.Replace(hook, at, url, 1), "/v1/data/", "/v9/data/", 1), true)
		ask(wrong.as(key["ci"]), "a.drop", "cannot be asked about this request, which was not sent to the server: HTTP status 404")
		stop()
		ask(undefined.as(key["ci"]), "a.keep", "cannot be asked about this request, which was not sent to the server: no connection to it")
	}
}
