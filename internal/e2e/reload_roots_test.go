//go:build unix

package e2e

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"dragoman/internal/app"
	"dragoman/internal/testkit"
)

// Roots that were replaced in their file are a changed configuration, of upstreams and of the collector of traces.
func TestReloadOfRoots(t *testing.T) {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	defer srv.Close()
	root := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))
	file := testkit.WriteFile(t, "roots.pem", root)
	for name, toml := range map[string]string{
		"upstream": "[upstreams.default]\nurl = \"https://127.0.0.1:1/mcp\"\nca_file = '" + file + "'\n",
		"tracing":  "[upstreams.default]\nurl = \"http://127.0.0.1:1/mcp\"\n[tracing]\nendpoint = \"https://127.0.0.1:1\"\nca_file = '" + file + "'\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := startRig(t, toml, false)
			watched := strings.Join(r.h.Cfg.Files(), " ")
			mentions(t, watched, file)
			r.reload(app.ReloadUnchanged, toml)
			if err := os.WriteFile(file, []byte(root+"\n"+root), 0o600); err != nil {
				t.Fatal(err)
			}
			r.reload(app.ReloadApplied, toml)
			r.reload(app.ReloadUnchanged, toml)
			if err := os.WriteFile(file, []byte(root), 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A reload that has found only keys that need a restart does not say that nothing has changed.
func TestReloadOfFixedKeysOnly(t *testing.T) {
	const base = "[upstreams.default]\nurl = \"http://127.0.0.1:1/mcp\"\n"
	r := startRig(t, base, false)
	r.reload(app.ReloadUnchanged, "limits.header = \"32KiB\"\n"+base)
	mentions(t, r.logs.String(), `"keys":["limits.header"]`, "take effect after a restart")
	if strings.Contains(r.logs.String(), "nothing has changed") {
		t.Error(r.logs.String())
	}
	r.reload(app.ReloadUnchanged, base)
	mentions(t, r.logs.String(), "nothing has changed")
}
