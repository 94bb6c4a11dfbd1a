package hook

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies"
	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// rig is a hook in front of a server that counts.
type rig struct {
	t       *testing.T
	metrics *prometheus.Registry
	served  int
	replies []string // of the server
	do      proxy.Handler

	mu     sync.Mutex
	asked  []string
	answer func(ctx context.Context, question string) (string, error) // of the decision point
	failed []error                                                    // what Failing was called with
}

const (
	aCall   = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm","arguments":{"path":"/a","token":"s3cret"}}}`
	aResult = `{"jsonrpc":"2.0","id":1,"result":{"content":[],"token":"s3cret"}}`
)

func newRig(t *testing.T, opt Options) *rig {
	t.Helper()
	r := &rig{t: t, metrics: prometheus.NewRegistry(), replies: []string{aResult}}
	r.answer = func(context.Context, string) (string, error) { return `{"result":true}`, nil }
	if opt.Methods == nil {
		opt.Methods = []string{"tools/call", "prompts/get", "resources/read"}
	}
	if opt.Timeout == 0 {
		opt.Timeout = time.Second
	}
	opt.Ask = func(ctx context.Context, question []byte) ([]byte, error) {
		r.mu.Lock()
		r.asked = append(r.asked, string(question))
		r.mu.Unlock()
		text, err := r.answer(ctx, string(question))
		return []byte(text), err
	}
	opt.Failing = func(err error) { r.failed = append(r.failed, err) }
	opt.Arguments = policies.NewArguments(policies.Arguments{What: opt.Arguments.What, Redact: []string{"token"}})
	opt.Metrics = newMetrics(t, r.metrics)
	r.do = New(opt).Policy("up", func(tool []byte) []byte {
		if string(tool) == "rm" {
			return []byte(`{"destructiveHint":true}`)
		}
		return nil
	})(func(*proxy.Exchange) (proxy.Replies, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.served++
		return &policytest.Script{Messages: r.replies, End: io.EOF}, nil
	})
	return r
}

func newMetrics(t *testing.T, reg prometheus.Registerer) *Metrics {
	t.Helper()
	m, err := NewMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// answers makes the decision point answer with a text.
func (r *rig) answers(text string) {
	r.answer = func(context.Context, string) (string, error) { return text, nil }
}

// fails makes questions fail.
func (r *rig) fails(err error) {
	r.answer = func(context.Context, string) (string, error) { return "", err }
}

// exchange is a request with all that a question says of it.
func (r *rig) exchange(raw string) *proxy.Exchange {
	r.t.Helper()
	return &proxy.Exchange{Msg: policytest.Scan(r.t, raw), RequestID: "id-1", Target: "up",
		Client: proxy.Client{Era: proxy.Modern, Version: "2026-07-28", Info: []byte(`{"name":"desk","version":"1"}`)},
		Caller: proxy.Caller{Principal: "ci", Rights: &proxy.Rights{Kind: "api_key", Name: "key", Scopes: []string{"a", "b"}}}}
}

// run makes a request, and returns its error.
func (r *rig) run(raw string) error {
	r.t.Helper()
	return policytest.Drain(r.do(r.exchange(raw)))
}

// wants checks the last error, how often the server and the decision point were asked, and the answers that were counted, by phase, answer and
// source.
func (r *rig) wants(err error, row string, served, asked int) {
	r.t.Helper()
	if policytest.Row(err) != row || r.served != served || len(r.asked) != asked {
		r.t.Errorf("%v; the server was asked %d times, the decision point %d; want %q, %d and %d", err, r.served, len(r.asked), row, served, asked)
	}
}

// counted returns how often an answer was counted.
func (r *rig) counted(phase, answer, source string) (n float64) {
	r.t.Helper()
	all, err := r.metrics.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if f.GetName() == "dragoman_policy_hook_answers_total" && labels["phase"] == phase && labels["answer"] == answer && labels["source"] == source {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// next reads one reply without a limit.
func next(r proxy.Replies) (*wire.Message, error) { return r.Next(time.Time{}) }
