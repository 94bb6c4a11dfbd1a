package telemetry

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Each request has one line and is counted once, with its outcome, whatever happens. Arguments and results are not logged.
func TestAccessLog(t *testing.T) {
	const ok, progress = `{"jsonrpc":"2.0","id":1,"result":{"secret":1}}`, `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`
	for _, c := range []struct {
		name    string
		replies policytest.Script
		err     error // instead of replies
		end     error // the exchange is cancelled before the replies are closed
		late    bool  // timed out
		level   string
		outcome string
	}{
		{name: "a result", replies: policytest.Script{Messages: []string{progress, ok}, End: io.EOF}, level: "debug", outcome: "ok"},
		{name: "an error of the server", replies: policytest.Script{Messages: []string{`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}`}, End: io.EOF}, level: "info", outcome: "server_error"},
		{name: "a refusal", err: proxy.Errf(proxy.InvalidParams, "no"), level: "info", outcome: proxy.InvalidParams.Name},
		{name: "a lost server", replies: policytest.Script{Messages: []string{progress}, End: proxy.Errf(proxy.Lost, "gone")}, level: "warn", outcome: proxy.Lost.Name},
		{name: "a fault of ours", err: errors.New("secret"), level: "warn", outcome: proxy.Internal.Name},
		{name: "given up", replies: policytest.Script{End: proxy.ErrNotYet}, level: "info", outcome: proxy.Cancelled.Name},
		{name: "given up by us", replies: policytest.Script{End: proxy.ErrNotYet}, late: true, level: "warn", outcome: proxy.UpstreamTimeout.Name},
		{name: "cancelled", replies: policytest.Script{End: proxy.ErrNotYet}, end: proxy.ErrCancelled, level: "info", outcome: proxy.Cancelled.Name},
		{name: "a listen that is drained", replies: policytest.Script{End: proxy.ErrNotYet}, end: proxy.ErrDraining, level: "info", outcome: proxy.ShuttingDown.Name},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			ex := &proxy.Exchange{Msg: policytest.Scan(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":"secret"}}}`), Target: "up"}
			if c.late {
				ex.GiveUp(0)
			}
			counts := prometheus.NewRegistry()
			metrics, err := NewMetrics(counts)
			if err != nil {
				t.Fatal(err)
			}
			replies, err := metrics.Policy(AccessLog(zerolog.New(&log), LogErrors, nil)(func(*proxy.Exchange) (proxy.Replies, error) { return &c.replies, c.err }))(ex)
			if err == nil {
				for {
					if _, err := replies.Next(time.Time{}); err != nil {
						break
					}
				}
				if c.end != nil {
					ex.Cancel(c.end)
				}
				_ = replies.Close()
			}
			var line struct{ Level, Method, About, Server, Outcome string }
			if err := json.Unmarshal(log.Bytes(), &line); err != nil {
				t.Fatalf("%v: %s", err, log.Bytes())
			}
			if line.Level != c.level || line.Outcome != c.outcome || line.Method != "tools/call" || line.About != "t" || line.Server != "up" {
				t.Errorf("%s", log.Bytes())
			}
			if got := policytest.Labels(t, counts, "dragoman_requests_total", "outcome"); got[c.outcome] != 1 || len(got) != 1 {
				t.Errorf("counted as %v", got)
			}
			if c.err == nil && strings.Contains(log.String(), "secret") {
				t.Errorf("arguments or results are logged: %s", log.Bytes())
			}
		})
	}
}

// FastLine writes what the logger does, byte for byte except for the clock and the form of escapes, and follows the same level.
func TestFastLine(t *testing.T) {
	session := &proxy.Session{ID: "abcdefghijkl"}
	for _, c := range []struct {
		method, name, id string
		who, target      string
		session          *proxy.Session
		era              proxy.Era
	}{
		{method: "tools/call", name: "echo", id: "r-1", who: "https://issuer#bench", target: "up"},
		{method: "tools/list", id: "r-2", session: session},
		{method: "tools/call", name: "echo", id: "r-3", target: "up", era: proxy.Modern},
		{method: "prompts/get", name: "hi", id: "r-4", target: "up", era: proxy.Modern},
		{method: "tools/call", name: `a\"b\u0000\ud83d\ude00` + strings.Repeat("ä", wire.MaxShown), id: "<\x7f\x01ä\">", who: "a\\b\n" + strings.Repeat("c", wire.MaxShown)},
	} {
		m := policytest.Scan(t, `{"jsonrpc":"2.0","id":1,"method":"`+c.method+`","params":{"name":"`+c.name+`","arguments":{"a":"secret"}}}`)
		ask := func(log zerolog.Logger, direct *FastLine, what string) {
			ex := &proxy.Exchange{Msg: m, Target: c.target, RequestID: c.id, Session: c.session, Client: proxy.Client{Era: c.era}}
			ex.Caller.Principal = c.who
			replies, err := AccessLog(log, what, direct)(func(*proxy.Exchange) (proxy.Replies, error) {
				return &policytest.Script{Messages: []string{`{"jsonrpc":"2.0","id":1,"result":{}}`}}, nil
			})(ex)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = replies.Next(time.Time{})
			_ = replies.Close()
		}
		for _, what := range []string{LogErrors, LogAll, LogNone} {
			var usual, short bytes.Buffer
			level, lines := NewLevel(zerolog.InfoLevel), NewBatchWriter(&short)
			ask(level.Logger(zerolog.New(&usual)), nil, what)
			ask(level.Logger(zerolog.New(lines)), &FastLine{Out: lines, Level: level}, what)
			level.Set(zerolog.DebugLevel)
			ask(level.Logger(zerolog.New(&usual)), nil, what)
			ask(level.Logger(zerolog.New(lines)), &FastLine{Out: lines, Level: level}, what)
			lines.Close()
			if a, b := timeless(t, usual.Bytes()), timeless(t, short.Bytes()); a != b {
				t.Errorf("%s: the logger writes\n%sFastLine\n%s", what, a, b)
			}
		}
	}
}

// timeless removes the times and normalises lines of the log.
func timeless(t *testing.T, lines []byte) (all string) {
	t.Helper()
	for line := range bytes.Lines(lines) {
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if ms, ok := fields["ms"].(float64); !ok || ms < 0 {
			t.Errorf("%s", line)
		}
		delete(fields, "ms")
		delete(fields, "time")
		out, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		all += string(out) + "\n"
	}
	return all
}

// Cached fields of one request are not written for another, however similar, and do not point to the request's memory.
func TestFastLinesOfSeveralRequests(t *testing.T) {
	var usual, short bytes.Buffer
	level, lines := NewLevel(zerolog.InfoLevel), NewBatchWriter(&short)
	direct := &FastLine{Out: lines, Level: level}
	for range 2 {
		for _, c := range []struct{ name, who, target string }{
			{}, {"echo", "ann", "up"}, {"echo", "bob", "up"}, {"echo", "bob", "to"}, {"hoec", "bob", "to"}, {"ech", "bobo", "to"}, {"e", "", ""}, {"", "e", ""},
			{`e\"`, "", ""}, {"echo", `an"`, "up"},
		} {
			raw := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + c.name + `","arguments":{}}}`)
			m, err := wire.Scan(raw)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range []*FastLine{nil, direct} {
				log := zerolog.New(&usual)
				if d != nil {
					log = zerolog.New(lines)
				}
				ex := &proxy.Exchange{Msg: m, Target: c.target, RequestID: "r", Caller: proxy.Caller{Principal: c.who}}
				replies, err := AccessLog(level.Logger(log), LogAll, d)(func(*proxy.Exchange) (proxy.Replies, error) {
					return &policytest.Script{Messages: []string{`{"jsonrpc":"2.0","id":1,"result":{}}`}}, nil
				})(ex)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = replies.Next(time.Time{})
				_ = replies.Close()
			}
			clear(raw)
		}
	}
	lines.Close()
	if a, b := timeless(t, usual.Bytes()), timeless(t, short.Bytes()); a != b {
		t.Errorf("FastLine writes\n%s\nthe logger\n%s", b, a)
	}
}

// Times and durations are formatted as by the logger.
func TestFastLineTimes(t *testing.T) {
	var s stamp
	at := time.Date(2026, 11, 22, 23, 59, 58, 0, time.FixedZone("x", 3600))
	for range 100 {
		at = at.Add(37*time.Millisecond + 999*time.Microsecond)
		if got, want := string(s.append(nil, at.UnixNano())), at.UTC().Format("2006-01-02T15:04:05.000Z07:00"); got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
	for _, d := range []time.Duration{0, 1, 999, 1000, 47504427, time.Millisecond, 1500 * time.Microsecond, time.Hour + 1} {
		var log bytes.Buffer
		logger := zerolog.New(&log)
		logger.Log().Dur("ms", d).Send()
		if got := `{"ms":` + string(appendMillis(nil, d)) + "}\n"; got != log.String() {
			t.Errorf("%s; want %s", got, log.String())
		}
	}
}
