package cli

import (
	"bytes"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"dragoman/internal/testkit"
)

// socketServer starts the demo server behind a socket, a process for each connection.
func socketServer(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); work.Wait() })
	serve := func(c net.Conn) {
		defer func() { _ = c.Close() }()
		demo := testkit.Self(t, "main", "demo", "--log-level", "error")
		in, err := demo.StdinPipe()
		if err != nil {
			t.Error(err)
			return
		}
		demo.Stdout = c
		if err := demo.Start(); err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(in, c) // it exits with its connection
		_ = in.Close()
		_ = demo.Wait()
	}
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { serve(c) })
		}
	})
	return l
}

// A server behind a socket is tested like a command.
func TestConformanceSockets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	socketServer(t, "unix", path)
	only := []string{"--only", "lifecycle.ping,legacy-stdio.eof,modern-stdio.ends", "--revision", "2025-11-25", "--revision", "2026-07-28"}
	const kept = "3 passed, 0 failed, 0 warnings, 0 notes, 0 skipped, 0 broken"
	code, out, errs := conformanceLine(t, append(only, "unix:"+path)...)
	if code != ExitOK || errs != "" || lastLine(out) != kept || !strings.Contains(out, "legacy-stdio  2025-11-25") {
		t.Errorf("%d\n%s\n%s", code, out, errs)
	}
	l := socketServer(t, "tcp", "127.0.0.1:0")
	code, out, errs = conformanceLine(t, append(only, "tcp://"+l.Addr().String())...)
	if code != ExitOK || errs != "" || lastLine(out) != kept {
		t.Errorf("%d\n%s\n%s", code, out, errs)
	}
	if code, _, errs = conformanceLine(t, "unix:"+path+"x"); code != exitNobody || !strings.Contains(errs, "does the server listen there") {
		t.Errorf("%d\n%s", code, errs)
	}
}

// The official suite, which sends no custom headers and trusts no custom roots, reaches a server that requires both; over HTTP+SSE it does
// so through a Dragoman.
func TestConformanceOfficialWithCredentials(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl")
	}
	demo, err := url.Parse(demoServer(t))
	if err != nil {
		t.Fatal(err)
	}
	pass := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(&url.URL{Scheme: "http", Host: demo.Host}) }}
	guard := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer s3cret-of-the-variable" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		body, _ := io.ReadAll(r.Body) // the answer may come before its end
		r.Body = io.NopCloser(bytes.NewReader(body))
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(guard.Close)
	roots := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: guard.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	script := testkit.WriteFile(t, "suite.sh", `set -eu
while [ $# -gt 0 ]; do
	case $1 in --url) url=$2 ;; -o) dir=$2 ;; esac
	shift
done
case $url in http://localhost:*/mcp) ;; *) echo "what is $url" >&2; exit 1 ;; esac
at=$dir/server-ping-2026-11-22T10-11-12-131Z
mkdir -p "$at"
status=$(curl -s -o "$dir/answer" -w '%{http_code}' -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' \
	-H 'Mcp-Method: server/discover' -d '{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}' "$url")
case $status in 200) grep -q supportedVersions "$dir/answer" && status=SUCCESS ;; esac
echo '[{"id":"answers","name":"Answers","description":"answers","status":"'$status'","errorMessage":"'$status'"}]' >"$at/checks.json"
`)
	code, out, errs := conformanceLine(t, "--official", "--official-command", "sh "+script, "--only", "official.*", "--revision", "2026-07-28", "--header", "Authorization: env:THE_TOKEN",
		"--ca-file", roots, guard.URL+demo.Path)
	if code != ExitOK || errs != "" || lastLine(out) != "1 passed, 0 failed, 0 warnings, 0 notes, 0 skipped, 0 broken" || strings.Contains(out, "s3cret") {
		t.Errorf("%d\n%s\n%s", code, out, errs)
	}
}
