package telemetry

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

const (
	goodTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	goodParent = "00-" + goodTrace + "-00f067aa0ba902b7-01"
)

// W3C Trace Context, traceparent: a malformed one is ignored together with the state.
func TestTraceparents(t *testing.T) {
	for parent, good := range map[string]bool{
		goodParent:                                        true,
		goodParent[:53] + "00":                            true,
		goodParent[:53] + "03":                            true, // random, as of level 2
		"01" + goodParent[2:]:                             true, // a later version
		"01" + goodParent[2:] + "-what-more":              true,
		"cc" + goodParent[2:] + "-":                       true,
		"ff" + goodParent[2:]:                             false,
		"01" + goodParent[2:] + ".what":                   false,
		goodParent + "-":                                  false,
		goodParent + "-00":                                false,
		goodParent[:54]:                                   false,
		strings.ToUpper(goodParent):                       false,
		"00-" + strings.Repeat("0", 32) + goodParent[35:]: false,
		goodParent[:36] + strings.Repeat("0", 16) + "-01": false,
		strings.Replace(goodParent, "-", "_", 1):          false,
		strings.Replace(goodParent, "4bf", "4bg", 1):      false,
		"0" + goodParent:                                  false,
		"":                                                false,
		"-":                                               false,
		"---":                                             false,
		strings.Repeat("-", maxTraceparent):               false,
		"01" + goodParent[2:] + "-" + strings.Repeat("x", maxTraceparent): false,
	} {
		ex := &proxy.Exchange{Msg: traceMessage(t, fmt.Sprintf(`{"traceparent":%q,"tracestate":"a=1"}`, parent))}
		got, _ := incomingTraces(ex)
		if good != (got != nil) || good && (got.State != "a=1" || got.Parent != parent) {
			t.Errorf("%q: %+v", parent, got)
		}
		if sc := trace.SpanContextFromContext(extracted(got)); sc.IsValid() != good || good && sc.TraceID().String() != goodTrace {
			t.Errorf("%q: %v", parent, sc)
		}
	}
}

func traceMessage(t testing.TB, meta string) wire.Message {
	t.Helper()
	return policytest.Scan(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":`+meta+`}}`)
}

// A value that is no string, or too long, is ignored. The last of several counts, as in JSON readers.
func TestTraceOfAMessage(t *testing.T) {
	for meta, want := range map[string]*proxy.Trace{
		`{}`:                nil,
		`null`:              nil,
		`[]`:                nil,
		`"x"`:               nil,
		`{"traceparent":1}`: nil,
		`{"traceparent":null,"tracestate":"a=1"}`:                                               nil,
		`{"traceparent":{"a":"` + goodParent + `"}}`:                                            nil,
		`{"tracestate":"a=1"}`:                                                                  nil,
		`{"baggage":"k=v"}`:                                                                     {Baggage: "k=v"},
		`{"baggage":"k=\u0000"}`:                                                                nil,
		`{"baggage":"` + strings.Repeat("x", maxBaggage+1) + `"}`:                               nil,
		`{"baggage":"` + strings.Repeat(`\u0078`, maxBaggage) + `"}`:                            {Baggage: strings.Repeat("x", maxBaggage)},
		`{"traceparent":"` + goodParent + `","tracestate":"` + strings.Repeat("a", 2000) + `"}`: {Parent: goodParent},
		`{"traceparent":"` + goodParent + `","traceparent":"x"}`:                                nil,
		`{"traceparent":"x","traceparent":"` + goodParent + `"}`:                                {Parent: goodParent},
	} {
		m := traceMessage(t, meta)
		got := metaTrace(&m)
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%.100s: %.100q, want %.100q", meta, got, want)
		}
	}
}

var version00 = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-0[0-3]$`)

// Whatever arrives, a traceparent of version 00 and of bounded length is sent.
func FuzzTrace(f *testing.F) {
	f.Add(goodParent, "a=1,b=2", "k=v;p=1", "x")
	f.Add("01-"+goodParent[3:]+"-more", "a=1,a=2", "\x00", goodParent)
	f.Add("ff", "=", "é", "")
	tracing := NewTracing(sdk.NewTracerProvider(sdk.WithSampler(sdk.ParentBased(sdk.NeverSample()))).Tracer("t"))
	f.Fuzz(func(t *testing.T, parent, state, baggage, head string) {
		meta, err := json.Marshal(map[string]string{"traceparent": parent, "tracestate": state, "baggage": baggage})
		if err != nil {
			t.Skip()
		}
		m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":` + string(meta) + `}}`))
		if err != nil {
			t.Skip()
		}
		ex := &proxy.Exchange{Msg: m, Arrival: &proxy.Arrival{Given: "i", Trace: traceOf(lines{"Traceparent": {head}, "Tracestate": {state}, "Baggage": {baggage}})}}
		handle := proxy.Chain(func(ex *proxy.Exchange) (proxy.Replies, error) {
			on := ex.OutgoingTrace()
			if on == nil || !version00.MatchString(on.Parent) || on.Parent == ex.Trace.Parent || on.TraceID() != ex.Trace.TraceID() {
				t.Fatalf("%+v, %+v", on, ex.Trace)
			}
			if len(on.State) > 2*maxTracestate || len(on.Baggage) > maxBaggage || strings.ContainsFunc(on.State+on.Baggage, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Fatalf("%+v", on)
			}
			return nil, nil
		}, tracing.Serve, tracing.Ask(Peer{Name: "u", Revision: func() string { return "" }}))
		if _, err := handle(ex); err != nil {
			t.Fatal(err)
		}
	})
}

// Names from clients and servers are truncated and valid UTF-8: one invalid name would spoil its whole batch.
func TestSpansHaveText(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracing := NewTracing(sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("t"))
	m := policytest.Scan(t, `{"jsonrpc":"2.0","id":"`+strings.Repeat("é", 500)+`","method":"tools/call","params":{"name":"`+strings.Repeat("xé", 500)+`"}}`)
	failed := proxy.Errf(proxy.Lost, "%s", "a\xff"+strings.Repeat("é", 500))
	if _, err := tracing.Serve(func(*proxy.Exchange) (proxy.Replies, error) { return nil, failed })(&proxy.Exchange{Msg: m}); err == nil {
		t.Fatal("no error")
	}
	s := spans.Ended()[0]
	texts := []string{s.Name(), s.Status().Description}
	for _, a := range s.Attributes() {
		texts = append(texts, a.Value.String())
	}
	for _, text := range texts {
		if len(text) > wire.MaxShown+len("tools/call … (1500 bytes)") || strings.ToValidUTF8(text, "?") != text {
			t.Errorf("%d bytes: %q", len(text), text)
		}
	}
}

// A notification, and a request without tracing, has no span and is passed on unchanged.
func TestNoSpans(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracing := NewTracing(sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("t"))
	ex := &proxy.Exchange{Msg: policytest.Scan(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)}
	plain := func(ex *proxy.Exchange) (proxy.Replies, error) { return nil, nil }
	_, _ = proxy.Chain(plain, tracing.Serve, tracing.Ask(Peer{}))(ex)
	request := &proxy.Exchange{Msg: traceMessage(t, "{}")}
	_, _ = proxy.Chain(plain, tracing.Ask(Peer{}))(request)
	if len(spans.Started()) != 0 || ex.OutgoingTrace() != nil || ex.Trace != nil || request.OutgoingTrace() != nil {
		t.Errorf("%d spans, %v, %v, %v", len(spans.Started()), ex.OutgoingTrace(), ex.Trace, request.OutgoingTrace())
	}
}

// An unsampled request is cheap.
func TestUnsampledIsCheap(t *testing.T) {
	tracing := NewTracing(sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample())).Tracer("t"))
	handle := proxy.Chain(func(*proxy.Exchange) (proxy.Replies, error) { return nil, nil }, tracing.Serve, tracing.Ask(Peer{Name: "u", Revision: func() string { return "" }}))
	m := traceMessage(t, "{}")
	if n := testing.AllocsPerRun(100, func() { _, _ = handle(&proxy.Exchange{Msg: m}) }); n > 16 {
		t.Errorf("%v allocations", n)
	} else {
		t.Logf("%v allocations", n)
	}
}
