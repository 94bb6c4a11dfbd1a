//go:build unix

package e2e

import (
	"testing"

	"dragoman/internal/testkit"
)

// Of several servers one is enough for readiness, and the body names the others; admin.ready = "all" asks for every one.
func TestReadinessOfSeveralServers(t *testing.T) {
	up := newUpstream(t, "modern")
	serves := "[upstreams.a]\nurl = \"" + up.url + "\"\n"
	down := func(name string) string {
		return "[upstreams." + name + "]\nurl = \"http://" + testkit.HeldAddress(t) + "/mcp\"\nhealth_check_interval = \"0s\"\n"
	}
	for _, tt := range []struct {
		name, toml string
		status     int
		body       []string
	}{
		{"one that serves", serves, 200, []string{`"status":"ok"`}},
		{"one that is down", down("b"), 503, []string{`"status":"not ready"`, `"name":"upstream b","ready":false`}},
		{"one of two", serves + down("b"), 200, []string{`"status":"degraded"`, `"name":"upstream a","ready":true`, `"name":"upstream b","ready":false`, `"state":"ERROR"`}},
		{"one of two, all asked for", "admin.ready = \"all\"\n" + serves + down("b"), 503, []string{`"status":"not ready"`, `"name":"upstream b","ready":false`}},
		{"one of one, all asked for", "admin.ready = \"all\"\n" + serves, 200, []string{`"status":"ok"`}},
		{"none of two", down("b") + down("c"), 503, []string{`"status":"not ready"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := startRig(t, tt.toml, false)
			ops := r.admin()
			ops.expect("GET", "/readyz", "", 503, `"status":"not ready"`, "not reached yet") // nothing has been asked yet
			fatal := make(chan error, 4)
			r.h.Probe(t.Context(), fatal)
			testkit.Eventually(t, "each has been tried", func() bool {
				for _, u := range r.h.Targets.All {
					if s := u.State().State; s != "CONNECTED" && s != "ERROR" {
						return false
					}
				}
				return true
			})
			ops.expect("GET", "/readyz", "", tt.status, tt.body...)
			r.h.Service().ShutDown()
			ops.expect("GET", "/readyz", "", 503, `"status":"not ready"`, "it is shutting down")
		})
	}
}
