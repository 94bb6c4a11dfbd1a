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
			m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":"secret"}}}`))
			if err != nil {
				t.Fatal(err)
			}
			ex := &proxy.Exchange{Msg: m, Target: "up"}
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
			if got := counted(t, counts); got != c.outcome {
				t.Errorf("counted as %q", got)
			}
			if c.err == nil && strings.Contains(log.String(), "secret") {
				t.Errorf("arguments or results are logged: %s", log.Bytes())
			}
		})
	}
}

// counted is the outcome of the only request.
func counted(t *testing.T, from prometheus.Gatherer) (outcome string) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "dragoman_requests_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "outcome" && m.GetCounter().GetValue() > 0 {
					outcome += l.GetValue()
				}
			}
		}
	}
	return outcome
}
