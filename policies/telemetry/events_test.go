package telemetry

import (
	"testing"

	"dragoman/proxy"
)

// An invocation of a tool is in the states of seed 002, and a failure says in which it was.
func TestStatesOfInvocations(t *testing.T) {
	sent := func(ex *proxy.Exchange) { ex.Target = "s"; ex.UpstreamEra.In(proxy.Modern) }
	for name, x := range map[string]struct {
		end       ending
		at        func(ex *proxy.Exchange)
		state, in string
	}{
		"a result":              {ending{ok: true, outcome: outcomeOK}, sent, "COMPLETED", ""},
		"an error of the tool":  {ending{ok: true, outcome: "tool_error"}, sent, "COMPLETED", ""},
		"questions":             {ending{ok: true, outcome: needsAnswers}, sent, "EXECUTING", ""},
		"an error":              {ending{outcome: "server_error"}, sent, "FAILED", "EXECUTING"},
		"the rate":              {ending{outcome: proxy.TooFast.Name, policy: "rate"}, nil, "FAILED", "VALIDATING"},
		"arguments":             {ending{outcome: proxy.ArgumentsInvalid.Name, policy: "schema"}, func(ex *proxy.Exchange) { ex.Target = "s" }, "FAILED", "VALIDATING"},
		"no server":             {ending{outcome: proxy.ServerUnknown.Name, policy: "router"}, nil, "FAILED", "ROUTING"},
		"no tool":               {ending{outcome: proxy.ToolUnknown.Name}, func(ex *proxy.Exchange) { ex.Target = "s" }, "FAILED", "ROUTING"},
		"a server that is down": {ending{outcome: proxy.UpstreamDown.Name, policy: "health"}, func(ex *proxy.Exchange) { ex.Target = "s" }, "FAILED", "ROUTING"},
		"lost":                  {ending{outcome: proxy.Lost.Name}, func(ex *proxy.Exchange) { ex.Target = "s" }, "FAILED", "EXECUTING"},
	} {
		ex := &proxy.Exchange{}
		if x.at != nil {
			x.at(ex)
		}
		if state, in := x.end.state(ex); state != x.state || in != x.in {
			t.Errorf("%s: %s %s, not %s %s", name, state, in, x.state, x.in)
		}
	}
}

// Events about limits are at most 100 in a second, and the next says how many were left out.
func TestLimitEventsAreBounded(t *testing.T) {
	l, told := &limitEvents{}, 0
	for range 250 {
		if _, ok := l.take(1); ok {
			told++
		}
	}
	if left, ok := l.take(2); told != refusedLines || !ok || left != 150 {
		t.Errorf("%d told, %d left out", told, left)
	}
	if left, ok := l.take(2); !ok || left != 0 {
		t.Errorf("%d left out again", left)
	}
}
