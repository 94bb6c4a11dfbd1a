//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dragoman/internal/testkit"
	"dragoman/policies/health"
)

// fallible is a stdio server written in shell. It does not start while the file $1 exists. Of its tools "ok" answers, "hang" does not,
// "crash" exits, "stop" stops the process as a debugger does, "endless" and "drips" begin a line that does not end. The placeholders are its answers to server/discover and initialize.
const fallible = `[ -e "$1" ] && { echo "no database" >&2; exit 7; }
while read -r line; do
  id=${line#*\"id\":}; id=${id%%%%[,\}]*}
  case $line in
  *'"method":"server/discover"'*) printf '{"jsonrpc":"2.0","id":%%s,%s}\n' "$id" ;;
  *'"method":"initialize"'*) printf '{"jsonrpc":"2.0","id":%%s,%s}\n' "$id" ;;
  *'"method":"ping"'*) printf '{"jsonrpc":"2.0","id":%%s,"result":{}}\n' "$id" ;;
  *'"method":"tools/list"'*) printf '{"jsonrpc":"2.0","id":%%s,"result":{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}}\n' "$id" ;;
  *'"name":"ok"'*) printf '{"jsonrpc":"2.0","id":%%s,"result":{"resultType":"complete","content":[],"pid":%%s}}\n' "$id" $$ ;;
  *'"name":"hang"'*) echo hanging >&2 ;;
  *'"name":"stop"'*) kill -STOP $$ ;;
  *'"name":"endless"'*) cat /dev/zero ;;
  *'"name":"drips"'*) while :; do printf '%%08192d' 0; sleep 0.1; done ;;
  *'"name":"crash"'*) printf 'one\ntwo\nout of \033[31mmemory\033[0m\n' >&2; exit 3 ;;
  esac
done`

// crashClient is a client of either era that calls tools.
type crashClient struct {
	r   *rig
	era string
	sid string // of a legacy client
}

func newCrashClient(r *rig, era string) *crashClient {
	c := &crashClient{r: r, era: era}
	if era == "legacy" {
		c.sid = r.open("2025-11-25", "{}")
	}
	return c
}

func (c *crashClient) call(ctx context.Context, id, tool string) (*response, error) {
	if c.era == "legacy" {
		return c.r.do(ctx, "POST", "/mcp", legacyCall(id, tool), legacyHeaders(c.sid)...)
	}
	return c.r.do(ctx, "POST", "/mcp", modernCall(id, tool, ""), modernHeaders("tools/call", tool)...)
}

// caller returns a function that calls a tool and ends the test if there is no response.
func (c *crashClient) caller(t *testing.T) func(tool string) *response {
	n := 0
	return func(tool string) *response {
		t.Helper()
		n++
		res, err := c.call(t.Context(), fmt.Sprint(n), tool)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
}

// crashFailure is an error response in any form.
type crashFailure struct {
	ID    json.RawMessage
	Error struct {
		Message string
		Data    struct {
			Code       string
			Retryable  bool
			RetryAfter int
			ExitCode   *int
			Stderr     []string
		}
	}
}

func failureOf(t *testing.T, res *response) (f crashFailure) {
	t.Helper()
	body := res.body
	if i := strings.LastIndex(body, "data: {"); i >= 0 {
		body = body[i+len("data: "):]
	}
	if err := json.Unmarshal([]byte(body), &f); err != nil || f.Error.Message == "" {
		t.Fatalf("%v: %d %s", err, res.status, res.body)
	}
	return f
}

// A server that crashes fails the calls in flight at once, with its exit code, and is then restarted. Where the configuration allows
// it, a client whose process it was sees the end of its stderr.
func TestCrashInMidCall(t *testing.T) {
	for _, server := range []string{"legacy", "modern"} {
		for _, client := range []string{"legacy", "modern"} {
			t.Run(client+" client, "+server+" server", func(t *testing.T) {
				r := startRig(t, fallibleToml(t, server, "/no/such/file", "stderr_to_clients = true"), true)
				own := client == "legacy" && server == "legacy"
				c := newCrashClient(r, client)
				ctx, cancel := context.WithTimeout(t.Context(), testkit.Patient)
				defer cancel()
				if res, err := c.call(ctx, "1", "ok"); err != nil || !strings.Contains(res.body, `"pid":`) {
					t.Fatalf("%v %+v", err, res)
				}
				answers := make(chan *response, 2)
				go callTo(ctx, c, "2", "hang", answers)
				testkit.Eventually(t, "the first call at the server", func() bool { return strings.Contains(r.logs.String(), "hanging") })
				go callTo(ctx, c, "3", "crash", answers)
				from := time.Now()
				for range 2 {
					f := failureOf(t, testkit.Receive(t, "the answers of the calls in flight", answers))
					mentions(t, f.Error.Message, `the upstream server "default" has ended: it exited with code 3 after `)
					if d := f.Error.Data; d.Code != "upstream_lost" || d.Retryable || d.ExitCode == nil || *d.ExitCode != 3 || (len(d.Stderr) == 3) != own {
						t.Errorf("%+v", d)
					}
					if own != strings.Contains(f.Error.Message, "two | out of memory") {
						t.Error(f.Error.Message)
					}
				}
				if took := time.Since(from); took > testkit.Patient/2 {
					t.Errorf("failed after %v", took)
				}
				res, err := c.call(ctx, "4", "ok")
				if own { // the server's session is lost, and so is the client's
					if err != nil || res.status != 404 {
						t.Fatalf("%v %+v", err, res)
					}
					c = newCrashClient(r, client)
					res, err = c.call(ctx, "5", "ok")
				}
				if err != nil || !strings.Contains(res.body, `"pid":`) {
					t.Errorf("%v %+v", err, res)
				}
				d := r.h.Targets.Named("default").Dialer
				if s := d.Stats(); s.Crashes != 1 {
					t.Errorf("%+v", s)
				}
			})
		}
	}
}

// callTo calls a tool and sends the answer to a channel.
func callTo(ctx context.Context, c *crashClient, id, tool string, to chan<- *response) {
	res, err := c.call(ctx, id, tool)
	if err != nil {
		res = &response{body: err.Error()}
	}
	to <- res
}

// A crash-looping server is not restarted all the time: clients of both eras get the reason and when to retry, health shows it, and one
// good start ends it.
func TestCrashLoop(t *testing.T) {
	for _, server := range []string{"legacy", "modern"} {
		t.Run(server, func(t *testing.T) {
			flag := filepath.Join(t.TempDir(), "broken")
			if err := os.WriteFile(flag, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			r := startRig(t, fallibleToml(t, server, flag, "crash_limit = 2\ncrash_pause = \"2s\""), false)
			ask := func(era string) *response {
				if era == "modern" {
					return r.must("POST", "/mcp", modernCall("1", "ok", ""), modernHeaders("tools/call", "ok")...)
				}
				return r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, legacyHeaders("")...)
			}
			d := r.h.Targets.Named("default").Dialer
			var last string
			for try := 0; d.Health().State != "open"; try++ {
				if last = failureOf(t, ask("modern")).Error.Message; try > 10 {
					t.Fatalf("the circuit does not open: %+v, %s", d.Health(), last)
				}
			}
			mentions(t, last, `the upstream server "default" has ended: it exited with code 7 after `)
			starts := d.Stats().Starts
			for _, era := range []string{"legacy", "modern"} {
				f := failureOf(t, ask(era))
				mentions(t, f.Error.Message, `the upstream server "default" keeps crashing`, "it exited with code 7", "upstreams.default.crash_pause")
				if strings.Contains(f.Error.Message, "no database") {
					t.Errorf("%s client: %s", era, f.Error.Message)
				}
				if d := f.Error.Data; d.Code != "upstream_unreachable" || !d.Retryable || d.RetryAfter < 1 || d.RetryAfter > 2 {
					t.Errorf("%s client: %+v", era, d)
				}
			}
			if d.Stats().Starts != starts {
				t.Errorf("started while the circuit was open: %+v", d.Stats())
			}
			mentions(t, r.logs.String(), `"circuit":"open"`, `"stderr":"no database"`)
			if err := os.Remove(flag); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, "the end of the pause", func() bool { return d.Health().State == "half-open" })
			if res := ask("modern"); !strings.Contains(res.body, `"pid":`) {
				t.Errorf("modern client: %+v", res)
			}
			testkit.Eventually(t, "the closed circuit", func() bool { return d.Health().State == "closed" })
			c := newCrashClient(r, "legacy")
			if res, err := c.call(t.Context(), "2", "ok"); err != nil || !strings.Contains(res.body, `"pid":`) {
				t.Errorf("legacy client: %v %+v", err, res)
			}
		})
	}
}

// The error of a server that never answers differs from that of a missing one. What it writes to stderr is in the log.
func TestSilentServer(t *testing.T) {
	command := "[upstreams.default]\ncommand = [\"/bin/sh\", \"-c\", \"echo fetching the index >&2; cat >/dev/null\"]\nprobe_timeout = \"2s\"\nstop_grace = \"500ms\"\n"
	r := startRig(t, command+"start_timeout = \"2500ms\"\n", false)
	f := failureOf(t, r.must("POST", "/mcp", modernCall("1", "ok", ""), modernHeaders("tools/call", "ok")...))
	mentions(t, f.Error.Message, "server/discover: no answer to server/discover in time", "2.5s", "upstreams.default.start_timeout")
	if strings.Contains(f.Error.Message, "fetching") {
		t.Error(f.Error.Message)
	}
	mentions(t, r.logs.String(), "fetching the index")
}

// fallibleToml configures a fallible server of an era.
func fallibleToml(t *testing.T, era, flag, extra string) string {
	t.Helper()
	discover, init := `"error":{"code":-32601,"message":"unknown method"}`, `"result":`+fmt.Sprintf(welcomed, "2025-11-25")
	if era == "modern" {
		discover, init = `"result":`+discovered, `"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"],"requested":"2025-11-25"}}`
	}
	command, err := json.Marshal([]string{"/bin/sh", "-c", fmt.Sprintf(fallible, discover, init), "sh", flag})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("[upstreams.default]\ncommand = %s\nstop_grace = \"500ms\"\n%s\n", command, extra)
}

// A child is not started for a health check, and an idle child is not down.
func TestChildIsNotChecked(t *testing.T) {
	r := startRig(t, fallibleToml(t, "modern", "/no/such/file", "idle_exit = \"1s\""), true)
	if _, body := clientKinds["modern"](r, "ok"); !strings.Contains(body, `"pid":`) {
		t.Fatal(body)
	}
	d := r.h.Targets.Named("default").Dialer
	testkit.Eventually(t, "the child has been stopped", func() bool { return d.Stats().Running == 0 })
	starts := d.Stats().Starts
	r.h.Targets.Named("default").Monitor.Recheck()
	if s := r.state("default"); s.State != health.Connected || !s.CheckedAt.IsZero() {
		t.Errorf("%+v", s)
	}
	if res := r.must("GET", "/health", ""); res.status != 200 || d.Stats().Starts != starts {
		t.Errorf("%d %s, %d starts", res.status, res.body, d.Stats().Starts-starts)
	}
}

// A child that does not start has its fallback too.
func TestFallbackElsewhere(t *testing.T) {
	other := newUpstream(t, "modern")
	other.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
	r := startRig(t, fallibleToml(t, "modern", "/", "fallback = \"other\"\ncrash_limit = 1")+strings.Replace(other.toml(""), "default", "other", 1), false)
	ask := on("default", clientKinds["modern"])
	testkit.Eventually(t, "the fallback serves", func() bool { _, body := ask(r, "ok"); return strings.Contains(body, "content") })
	res := r.must("GET", "/health", "")
	mentions(t, res.body, `"state":"ERROR"`, `"state":"CONNECTED"`, `"degraded"`, "exited with code 7")
}
