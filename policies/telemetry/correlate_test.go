package telemetry

import (
	"strings"
	"testing"

	"dragoman/proxy"
)

// lines makes a head of fields.
type lines map[string][]string

func (l lines) Peek(name string) []byte {
	if all := l.PeekAll(name); len(all) > 0 {
		return all[0]
	}
	return nil
}

func (l lines) PeekAll(name string) (all [][]byte) {
	for _, v := range l[name] {
		all = append(all, []byte(v))
	}
	return all
}

func arrive(t *testing.T, traced bool, fields lines) *proxy.Arrival {
	t.Helper()
	h := &proxy.Head{Fields: fields}
	if err := Correlate(traced)(h); err != nil || h.Arrival == nil {
		t.Fatalf("%v, %v", err, h.Arrival)
	}
	return h.Arrival
}

func TestCorrelate(t *testing.T) {
	for id, taken := range map[string]bool{"a": true, "A-1_2.3:~!": true, strings.Repeat("x", maxRequestID): true, strings.Repeat("x", maxRequestID+1): false,
		"": false, " a": false, "a b": false, "a\tb": false, "a\x00": false, "a\r\nX: y": false, "é": false, "\x7f": false, "\xff": false} {
		if a := arrive(t, false, lines{"X-Request-Id": {id}}); (a.Given != "") != taken || taken != (a.ID() == id) || a.ID() == "" || !a.Has(a.ID()) {
			t.Errorf("%q: %+v", id, a)
		}
	}
	if a := arrive(t, false, lines{"X-Request-Id": {"a", "a"}}); a.Given != "" {
		t.Errorf("two: %+v", a)
	}
	if a, b := arrive(t, false, nil), arrive(t, false, nil); a.ID() == b.ID() || len(a.ID()) != 36 || a.Has(b.ID()) {
		t.Errorf("%q, %q", a.ID(), b.ID())
	}
	if a := arrive(t, false, lines{"Traceparent": {"x"}}); a.Trace != nil {
		t.Errorf("without a trace: %+v", a.Trace)
	}
}

func TestTraceOfAHead(t *testing.T) {
	long := strings.Repeat("k=v,", maxBaggage/4)
	for name, x := range map[string]struct {
		in   lines
		want proxy.Trace
	}{
		"all":              {lines{"Traceparent": {" p "}, "Tracestate": {"a=1", "b=2"}, "Baggage": {"k=v"}}, proxy.Trace{Parent: "p", State: "a=1,b=2", Baggage: "k=v"}},
		"none":             {nil, proxy.Trace{}},
		"two parents":      {lines{"Traceparent": {"p", "q"}, "Tracestate": {"a=1"}}, proxy.Trace{}},
		"state alone":      {lines{"Tracestate": {"a=1"}}, proxy.Trace{}},
		"baggage alone":    {lines{"Baggage": {"k=v"}}, proxy.Trace{Baggage: "k=v"}},
		"long":             {lines{"Traceparent": {"p"}, "Tracestate": {strings.Repeat("a", maxTracestate+1)}, "Baggage": {long + "k"}}, proxy.Trace{Parent: "p"}},
		"long together":    {lines{"Baggage": {long, "k"}}, proxy.Trace{}},
		"as long as it is": {lines{"Baggage": {long}}, proxy.Trace{Baggage: long}},
		"a long parent":    {lines{"Traceparent": {strings.Repeat("0", maxTraceparent+1)}}, proxy.Trace{}},
		"controls":         {lines{"Traceparent": {"p"}, "Tracestate": {"a=\x01"}, "Baggage": {"k=\x7f"}}, proxy.Trace{Parent: "p"}},
		"not ASCII":        {lines{"Traceparent": {"p\xff"}, "Baggage": {"k=é"}}, proxy.Trace{}},
	} {
		got := arrive(t, true, x.in).Trace
		if got == nil {
			got = &proxy.Trace{}
		}
		if *got != x.want {
			t.Errorf("%s: %.80q", name, *got)
		}
	}
}
