package telemetry

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-json"
	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies"
	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
)

func openedTrail(t *testing.T, opt AuditLogOptions) (*AuditLog, *prometheus.Registry) {
	t.Helper()
	if opt.Failed == nil {
		opt.Failed = func(error, uint64) {}
	}
	reg := prometheus.NewRegistry()
	trail, err := OpenAuditLog(opt, reg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(trail.Close)
	return trail, reg
}

// became returns how many lines of a trail had which result.
func became(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	return policytest.Labels(t, reg, "dragoman_audit_lines_total", "outcome")
}

func linesOf(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// All lines of many writers are in the file, complete and in order, whatever happens to the file meanwhile.
func TestAuditLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	trail, reg := openedTrail(t, AuditLogOptions{File: file, Bytes: 512, Block: true})
	const writers, each = 8, 300
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				trail.Write(t.Context(), fmt.Appendf(nil, "%d %d %s\n", w, i, strings.Repeat("x", i%50)))
				if i%100 == 50 && w == 0 {
					if err := os.Rename(file, fmt.Sprintf("%s.%d", file, i)); err != nil {
						t.Error(err)
					}
					trail.Reopen()
					for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
						if _, err := os.Stat(file); err == nil || time.Now().After(end) {
							break
						}
					}
				}
			}
		})
	}
	wg.Wait()
	trail.Close()
	trail.Write(t.Context(), []byte("late\n"))
	var all []string
	for _, name := range []string{".50", ".150", ".250", ""} {
		all = append(all, linesOf(t, file+name)...)
	}
	next := make([]int, writers)
	for _, line := range all {
		var w, i int
		var rest string
		if n, err := fmt.Sscanf(line, "%d %d %s", &w, &i, &rest); n < 2 || err != nil && !errors.Is(err, io.EOF) && n != 2 || i != next[w] || len(rest) != i%50 {
			t.Fatalf("%q, want number %d", line, next[w])
		}
		next[w]++
	}
	if got := became(t, reg); len(all) != writers*each || got["written"] != writers*each || got["dropped"] != 1 || got["failed"] != 0 {
		t.Errorf("%d lines, %v", len(all), got)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

// stuckTrail is a trail whose file is not read, so that its writer blocks.
func stuckTrail(t *testing.T, block bool, failed func(error, uint64)) (trail *AuditLog, reg *prometheus.Registry, out *os.File) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "audit.log")
	trail, reg = openedTrail(t, AuditLogOptions{File: file, Bytes: 4096, Block: block, Failed: failed})
	trail.Close() // its writer has ended; one with another file replaces it
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	trail.file, trail.closed, trail.ended = out, false, make(chan struct{})
	go trail.run()
	return trail, reg, in
}

// When the file accepts no more, lines are dropped and counted, or their writers wait.
func TestAuditLogBehind(t *testing.T) {
	line := []byte(strings.Repeat("x", 1023) + "\n")
	trail, reg, in := stuckTrail(t, false, nil)
	for range 200 { // a pipe takes 64 KiB
		trail.Write(t.Context(), line)
	}
	if got := became(t, reg)["dropped"]; got < 200-64-8-64 || got > 200-4 {
		t.Errorf("%v dropped", got)
	}
	drained := in
	go func() { _, _ = io.Copy(io.Discard, drained) }()
	trail.Close()
	if got := became(t, reg); got["written"]+got["dropped"] != 200 {
		t.Errorf("%v", got)
	}

	trail, reg, in = stuckTrail(t, true, nil)
	given := make(chan struct{})
	go func() {
		defer close(given)
		for range 200 {
			trail.Write(t.Context(), line)
		}
	}()
	select {
	case <-given:
		t.Error("no writer has waited")
	case <-time.After(50 * time.Millisecond):
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	trail.Write(left, line) // a client that has left does not wait
	read := bufio.NewScanner(in)
	for range 200 {
		if !read.Scan() {
			t.Fatal(read.Err())
		}
	}
	<-given
	trail.Close()
	if got := became(t, reg); got["written"] != 200 || got["dropped"] != 1 {
		t.Errorf("%v", got)
	}
}

// Lines that cannot be written are counted and logged, but not each time.
func TestAuditLogFails(t *testing.T) {
	var mu sync.Mutex
	var told []uint64
	trail, reg, in := stuckTrail(t, false, func(_ error, lost uint64) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, lost)
	})
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		trail.Write(t.Context(), []byte("x\n"))
	}
	trail.Close()
	if got := became(t, reg); got["failed"] != 10 || len(told) != 1 || told[0] == 0 {
		t.Errorf("%v, told %v", got, told)
	}
	if _, err := OpenAuditLog(AuditLogOptions{File: filepath.Join(t.TempDir(), "no", "such")}, prometheus.NewRegistry()); err == nil || !strings.Contains(err.Error(), "audit.file") {
		t.Error(err)
	}
}

// line is a line of an audit trail.
type auditLine struct {
	InvocationID, CorrelationID, TraceID, SessionID, ToolName, Method, Server, Principal, User, Credential, Address string
	Era, UpstreamEra, ClientName, ClientVersion, Decision, Policy, Status, Outcome                                  string
	RequestID                                                                                                       any
	Arguments                                                                                                       any
	ArgumentKeys                                                                                                    []string
	ArgumentsBytes, ResultBytes, DurationMs                                                                         int
	StartedAt, FinishedAt                                                                                           time.Time
	Error                                                                                                           *struct {
		Code    int
		Message string
	}
}

// audit sends a request and returns its line; nil if there is none.
func auditOf(t *testing.T, opt AuditOptions, ex *proxy.Exchange, next proxy.Handler) *auditLine {
	t.Helper()
	file := filepath.Join(t.TempDir(), "audit.log")
	opt.Log, _ = openedTrail(t, AuditLogOptions{File: file, Bytes: 1 << 20})
	opt.Arguments = policies.NewArguments(opt.Arguments)
	allReplies(t, Audit(opt)(next), ex)
	opt.Log.Close()
	lines := linesOf(t, file)
	if len(lines) == 0 {
		return nil
	}
	var line auditLine
	if err := json.Unmarshal([]byte(lines[0]), &line); err != nil || len(lines) != 1 {
		t.Fatalf("%v: %q", err, lines)
	}
	return &line
}

// Each call has one line with the fields that seed 003 requires of a McpToolInvocation, whatever happens.
func TestAudit(t *testing.T) {
	const result = `{"jsonrpc":"2.0","id":1,"result":{"content":[],"secret":"s"}}`
	gives := func(text string) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			ex.Target = "up"
			ex.UpstreamEra.In(proxy.Legacy)
			ex.Msg.Name = ex.Msg.Method // a policy renames the tool
			return &policytest.Script{Messages: []string{text}, End: io.EOF}, nil
		}
	}
	fails := func(denied string, err error) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) { ex.RefusedBy = denied; return nil, err }
	}
	for _, c := range []struct {
		name                              string
		next                              proxy.Handler
		status, outcome, decision, policy string
		code                              int
	}{
		{"a result", gives(result), "ok", "ok", "allowed", "", 0},
		{"a tool's error", gives(`{"jsonrpc":"2.0","id":1,"result":{"isError":true}}`), "ok", "tool_error", "allowed", "", 0},
		{"a question", gives(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}`), "ok", "input_required", "allowed", "", 0},
		{"an error", gives(`{"jsonrpc":"2.0","id":1,"error":{"code":-7,"message":"no"}}`), "error", "server_error", "allowed", "", -7},
		{"not allowed", fails("access", proxy.Errf(proxy.ToolUnknown, "Tool not found")), "error", "tool_not_found", "denied", "access", -32602},
		{"too fast", fails("", proxy.Errf(proxy.TooFast, "slow down")), "error", "rate_limited", "denied", "rate", -32603},
		{"a lost server", fails("", proxy.Errf(proxy.Lost, "gone")), "error", "upstream_lost", "allowed", "", -32603},
		{"given up", func(*proxy.Exchange) (proxy.Replies, error) { return &policytest.Script{End: proxy.ErrNotYet}, nil }, "error", "cancelled", "allowed", "", -32603},
	} {
		t.Run(c.name, func(t *testing.T) {
			ex := aRequest(t, "tools/call", `{"name":"write","arguments":{"path":"/a","token":"s3cret"}}`)
			ex.Client.Info = []byte(`{"name":"cli\"ent","version":"2"}`)
			ex.Caller = proxy.Caller{Principal: "ci", Rights: &proxy.Rights{Kind: "api_key", Name: "key"}}
			ex.Trace = &proxy.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
			ex.RequestID = "corr"
			l := auditOf(t, AuditOptions{Methods: []string{"tools/call"}}, ex, c.next)
			if l == nil {
				t.Fatal("no line")
			}
			if l.Status != c.status || l.Outcome != c.outcome || l.Decision != c.decision || l.Policy != c.policy || (l.Error != nil) != (c.code != 0) || l.Error != nil && l.Error.Code != c.code {
				t.Errorf("%+v %+v", l, l.Error)
			}
			if len(l.InvocationID) != 36 || l.CorrelationID != "corr" || l.TraceID != "0af7651916cd43dd8448eb211c80319c" || l.ToolName != "write" || l.Method != "tools/call" || l.RequestID != 1.0 ||
				l.Principal != "ci" || l.User != "key" || l.Credential != "api_key" || l.ClientName != `cli"ent` || l.ClientVersion != "2" || l.Era != "modern" || l.ArgumentsBytes != 30 || l.Arguments != nil {
				t.Errorf("%+v", l)
			}
			if l.StartedAt.IsZero() || l.FinishedAt.Before(l.StartedAt) || l.DurationMs < 0 || (l.ResultBytes > 0) != (l.UpstreamEra != "") {
				t.Errorf("%+v", l)
			}
		})
	}
	if l := auditOf(t, AuditOptions{Methods: []string{"tools/call"}}, aRequest(t, "tools/list", `{}`), gives(result)); l != nil {
		t.Errorf("%+v", l)
	}
	if l := auditOf(t, AuditOptions{Methods: []string{"*"}}, aRequest(t, "resources/read", `{"uri":"file:///a"}`), gives(result)); l == nil || l.Method != "resources/read" {
		t.Errorf("%+v", l)
	}
	own := aRequest(t, "tools/call", `{"name":"x"}`)
	own.Own = true
	if l := auditOf(t, AuditOptions{Methods: []string{"*"}}, own, gives(result)); l != nil {
		t.Errorf("a request of Dragoman itself has a line: %+v", l)
	}
	if Audit(AuditOptions{}) != nil {
		t.Error("there is a policy without a trail")
	}
}

// Secrets are not logged, whatever their names, and no argument makes a line long.
func TestAuditArguments(t *testing.T) {
	args := `{"path":"/etc/x","n":12,"Pass-Word":"s3cret","nested":{"api\u004bey":{"a":"s3cret"},"list":[{"X-Auth-Token":["s3cret"]},"ok"]},` +
		`"header":"bEarer s3cret","pem":"-----BEGIN PRIVATE KEY-----s3cret","long":"` + strings.Repeat("é", 300) + `"}`
	line := func(a policies.Arguments, args string) *auditLine {
		t.Helper()
		a.Redact = []string{"password", "api_key", "TOKEN", "--"}
		return auditOf(t, AuditOptions{Methods: []string{"*"}, Arguments: a}, aRequest(t, "tools/call", `{"name":"t","arguments":`+args+`}`),
			func(*proxy.Exchange) (proxy.Replies, error) { return nil, proxy.Errf(proxy.Lost, "x") })
	}
	redacted := line(policies.Arguments{What: policies.ArgumentsRedacted, Value: 101, Bytes: 8 << 10}, args)
	got, err := json.Marshal(redacted.Arguments)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"Pass-Word":"[redacted]","header":"[redacted]","long":"%s","n":12,"nested":{"apiKey":"[redacted]","list":[{"X-Auth-Token":"[redacted]"},"ok"]},"path":"/etc/x","pem":"[redacted]"}`
	if string(got) != fmt.Sprintf(want, strings.Repeat("é", 50)+"…") {
		t.Errorf("%s", got)
	}
	if keys := line(policies.Arguments{What: policies.ArgumentsKeys, Value: 100, Bytes: 8 << 10}, args); strings.Join(keys.ArgumentKeys, " ") != "path n Pass-Word nested header pem long" || keys.Arguments != nil {
		t.Errorf("%+v", keys)
	}
	full := line(policies.Arguments{What: policies.ArgumentsFull, Value: 1 << 10, Bytes: 8 << 10}, args)
	if text, err := json.Marshal(full.Arguments); err != nil || strings.Count(string(text), "s3cret") != 5 {
		t.Errorf("%s %v", text, err)
	}
	for name, args := range map[string]string{
		"many":   `{"a":[` + strings.Repeat(`{"k":"v"},`, 20000) + `1]}`,
		"names":  `{` + strings.Repeat(`"kkkkkkkkkk":1,`, 20000) + `"z":1}`,
		"deep":   strings.Repeat(`{"a":`, 900) + `1` + strings.Repeat(`}`, 900),
		"arrays": `{"a":` + strings.Repeat(`[`, 900) + strings.Repeat(`]`, 900) + `}`,
		"number": `{"a":` + strings.Repeat("1", 100_000) + `}`,
		"text":   `{"a":"` + strings.Repeat(`\u0000`, 100_000) + `"}`,
		"key":    `{"` + strings.Repeat(`k`, 100_000) + `":1}`,
	} {
		for _, what := range []string{policies.ArgumentsKeys, policies.ArgumentsRedacted, policies.ArgumentsFull} {
			a := policies.NewArguments(policies.Arguments{What: what, Value: 100, Bytes: 1000, Redact: []string{"x"}})
			ex := aRequest(t, "tools/call", `{"name":"t","arguments":`+args+`}`)
			text, _ := a.Append(nil, "arguments", "argumentKeys", ex.Msg.Raw, ex.Msg.Arguments)
			if len(text) > 4000 || !json.Valid([]byte("{"+string(text[1:])+"}")) {
				t.Errorf("%s, %s: %d bytes: %.300s", name, what, len(text), text)
			}
		}
	}
}
