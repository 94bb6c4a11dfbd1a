// Package policytest holds what the tests of several policies need: requests, scripted replies and failures of a server.
package policytest

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Messages of a call and of a list.
const (
	Call         = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}}}`
	List         = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`
	Result       = `{"jsonrpc":"2.0","id":1,"result":{}}`
	Failure      = `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"tool"}}`
	Notification = `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`
)

// CallOf is a call of a tool.
func CallOf(tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, tool)
}

// StatusError is an HTTP status that a server answered.
type StatusError int

// Error implements error.
func (s StatusError) Error() string { return "HTTP status" }

// HTTPStatus is the status.
func (s StatusError) HTTPStatus() int { return int(s) }

// Unreachable is the error of a server that refuses connections.
func Unreachable() error {
	return proxy.Errf(proxy.Unreachable, "no way: %w", syscall.ECONNREFUSED)
}

// BadGateway is the error of a server that answers 502.
func BadGateway() error { return proxy.Errf(proxy.HTTPStatus, "it answered %w", StatusError(502)) }

// Scan reads a message.
func Scan(t testing.TB, raw string) wire.Message {
	t.Helper()
	m, err := wire.Scan([]byte(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return m
}

// Request is a modern client's request.
func Request(t testing.TB, raw string) *proxy.Exchange {
	t.Helper()
	return &proxy.Exchange{Msg: Scan(t, raw), Client: proxy.Client{Era: proxy.Modern}}
}

// Script is replies that end with End after Messages.
type Script struct {
	Messages []string
	End      error
}

// Next implements proxy.Replies.
func (s *Script) Next(time.Time) (*wire.Message, error) {
	if len(s.Messages) == 0 {
		return nil, s.End
	}
	m, err := proxy.Scanned([]byte(s.Messages[0]))
	s.Messages = s.Messages[1:]
	return m, err
}

// Close implements proxy.Replies.
func (s *Script) Close() error { return nil }

// Run makes a request that ends with Result, or fails with err if it is not nil.
func Run(t testing.TB, p proxy.Policy, raw string, err error) error {
	t.Helper()
	return Drain(p(func(*proxy.Exchange) (proxy.Replies, error) {
		if err != nil {
			return nil, err
		}
		return &Script{Messages: []string{Result}, End: io.EOF}, nil
	})(Request(t, raw)))
}

// Drain reads replies up to the response.
func Drain(replies proxy.Replies, err error) error {
	if err != nil {
		return err
	}
	defer func() { _ = replies.Close() }()
	for {
		m, err := replies.Next(time.Time{})
		if err != nil {
			return err
		}
		if m.IsResponse() {
			return nil
		}
	}
}

// Row is the row of the error table that an error is of; empty if it is of none.
func Row(err error) string {
	var e *proxy.Error
	if errors.As(err, &e) {
		return e.Name
	}
	return ""
}

// Metric is the sum of a metric over its labels. A histogram or summary counts its observations.
func Metric(t testing.TB, from prometheus.Gatherer, name string) (sum float64) {
	t.Helper()
	each(t, from, name, func(_ map[string]string, value float64) { sum += value })
	return sum
}

// Labels is the sum of a metric for each value of a label.
func Labels(t testing.TB, from prometheus.Gatherer, name, label string) map[string]float64 {
	t.Helper()
	sums := map[string]float64{}
	each(t, from, name, func(labels map[string]string, value float64) { sums[labels[label]] += value })
	return sums
}

// each calls see for each series of a metric.
func each(t testing.TB, from prometheus.Gatherer, name string, see func(labels map[string]string, value float64)) {
	t.Helper()
	all, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				labels := map[string]string{}
				for _, l := range m.GetLabel() {
					labels[l.GetName()] = l.GetValue()
				}
				see(labels, m.GetCounter().GetValue()+m.GetGauge().GetValue()+float64(m.GetSummary().GetSampleCount()+m.GetHistogram().GetSampleCount()))
			}
		}
	}
}
