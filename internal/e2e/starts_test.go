//go:build unix

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dragoman/internal/testkit"
	"dragoman/proxy"
)

// counted is a stdio server written in shell, which adds a line to the file $1 when it starts. $2 says what it does at server/discover.
const counted = `echo start >> "$1"
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  say() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
  case $line in
  *'"method":"server/discover"'*) case $2 in
    refuses) say '"error":{"code":-32601,"message":"unknown"}' ;;
    odd) say '"result":{}' ;;
    modern | dual | deaf | quits) say '"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}' ;;
    exits) exit 0 ;;
    spoiled) spoiled=1; say '"error":{"code":-32600,"message":"not initialized"}' ;;
    esac ;;
  *'"method":"ping"'*) [ "$2" = mute ] || say '"result":{}' ;;
  *'"method":"initialize"'*) if [ "$2" = quits ]; then exit 0; elif [ "$2" = deaf ]; then :; elif [ "$2" = modern ]; then say '"error":{"code":-32601,"message":"unknown"}'; elif [ -z "$spoiled" ]; then
    say '"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"counted","version":"1"}}'; fi ;;
  *'"method":"tools/list"'*) say '"result":{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}' ;;
  esac
done`

// A stdio server is started as often as it is needed: the process that answers a probe serves the first client. The number of starts is
// that of a legacy and of a modern client of stdio, and of each as the first client of serve.
func TestStarts(t *testing.T) {
	const modernList = `{"jsonrpc":"2.0","id":"l","method":"tools/list","params":{` + modernMeta + `}}`
	clients := []struct {
		name string
		run  func(t *testing.T, toml string)
	}{
		{"stdio legacy", func(t *testing.T, toml string) {
			p := startStdio(t, toml)
			p.send(stdioInit)
			p.receives(`{"jsonrpc":"2.0","id":"i","result":{…`)
			p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			p.send(`{"jsonrpc":"2.0","id":"l","method":"tools/list"}`)
			p.receives(`{"jsonrpc":"2.0","id":"l","result":{…`)
		}},
		{"stdio modern", func(t *testing.T, toml string) {
			p := startStdio(t, toml)
			p.send(modernList)
			p.receives(`{"jsonrpc":"2.0","id":"l","result":{…`)
		}},
		{"serve legacy", func(t *testing.T, toml string) { probing(t, toml).open("2025-11-25", "{}") }},
		{"serve modern", func(t *testing.T, toml string) {
			if res := probing(t, toml).must("POST", "/mcp", modernList, modernHeaders("tools/list", "")...); !strings.Contains(res.body, `"result"`) {
				t.Errorf("%d %s", res.status, res.body)
			}
		}},
	}
	for _, c := range []struct {
		server string
		starts [4]int
		extra  string
	}{
		{"refuses", [4]int{1, 1, 1, 1}, ""},
		{"ignores", [4]int{1, 1, 1, 1}, ""},
		{"odd", [4]int{1, 2, 2, 2}, ""},     // what takes server/discover for something else may be any server
		{"mute", [4]int{1, 2, 2, 2}, ""},    // nothing but initialize shows that it is there
		{"exits", [4]int{1, 3, 3, 3}, ""},   // two have to show that
		{"spoiled", [4]int{1, 2, 2, 2}, ""}, // it takes no handshake after a probe
		{"modern", [4]int{1, 1, 2, 1}, ""},  // the second is asked whether it is legacy too
		{"dual", [4]int{1, 1, 2, 1}, ""},    // the second is the legacy client's own
		{"refuses", [4]int{1, 1, 1, 1}, "era = \"legacy\"\n"},
		{"mute", [4]int{1, 2, 2, 2}, "era = \"legacy\"\n"},
		{"modern", [4]int{1, 1, 1, 1}, "era = \"modern\"\n"},
	} {
		for i, client := range clients {
			t.Run(strings.TrimSpace(c.server+" "+c.extra+" "+client.name), func(t *testing.T) {
				t.Parallel()
				file := filepath.Join(t.TempDir(), "starts")
				began := time.Now()
				client.run(t, fmt.Sprintf("[upstreams.default]\ncommand = [\"sh\", \"-c\", '''%s''', \"sh\", %q, %q]\nprobe_timeout = \"2s\"\n%s", counted, file, c.server, c.extra))
				took := time.Since(began)
				lines, err := os.ReadFile(file)
				if n := strings.Count(string(lines), "\n"); n != c.starts[i] {
					t.Errorf("%d starts, want %d (%v)", n, c.starts[i], err)
				}
				if limit := 5 * time.Second; took > limit && c.server != "spoiled" {
					t.Errorf("after %s", took)
				}
			})
		}
	}
}

// A modern server that does not answer initialize, or ends there, serves legacy clients all the same, and is asked for it once.
func TestModernServerWithoutInitialize(t *testing.T) {
	for server, starts := range map[string]int{"deaf": 2, "quits": 2} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "starts")
			r := probing(t, fmt.Sprintf("[upstreams.default]\ncommand = [\"sh\", \"-c\", '''%s''', \"sh\", %q, %q]\nprobe_timeout = \"1s\"\n", counted, file, server))
			for range 2 {
				r.open("2025-11-25", "{}")
			}
			lines, err := os.ReadFile(file)
			if n := strings.Count(string(lines), "\n"); n != starts {
				t.Errorf("%d starts, want %d (%v)", n, starts, err)
			}
		})
	}
}

// probing is startRig with the probe of serve, once that has found something.
func probing(t *testing.T, toml string) *rig {
	t.Helper()
	r := startRig(t, toml, false)
	r.h.Probe(t.Context(), make(chan error, 1))
	testkit.Eventually(t, "the server", r.h.Targets.All[0].Ready)
	return r
}

// A child that ends at once is reported with its exit code, at once.
func TestChildThatEndsAtOnce(t *testing.T) {
	const toml = "[upstreams.default]\ncommand = [\"sh\", \"-c\", \"echo no database >&2; exit 7\"]\n"
	r := startRig(t, toml, false)
	began := time.Now()
	_, err := r.h.Targets.All[0].Both(t.Context())
	if err == nil || proxy.AsError(err).Name != proxy.Lost.Name {
		t.Fatalf("%v", err)
	}
	mentions(t, err.Error(), "exited with code 7") // what it wrote is in the log: others may use the server
	p := startStdio(t, toml)
	p.send(stdioInit)
	p.receives(`{"jsonrpc":"2.0","id":"i","error":{"code":-32603,"message":"…exited with code 7…","data":{"code":"upstream_lost",…"exitCode":7,…`)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("after %s", took)
	}
}
