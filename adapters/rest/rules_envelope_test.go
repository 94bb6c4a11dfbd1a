package rest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-json"

	"dragoman/adapters/rest/envelope"
	"dragoman/proxy"
)

// Seed 000, ResponseEnvelope: its fields and validation rules, checked on the answers of every endpoint.
func TestRulesEnvelope(t *testing.T) {
	r := newRig(t, nil)
	r.scripted()
	good, bad := r.answers(goodRequests), r.answers(badRequests)
	all := slices.Concat(good, bad)
	each := func(rule string, these []*answered, holds func(a *answered) bool) {
		t.Helper()
		t.Run(rule, func(t *testing.T) {
			for _, a := range these {
				if !holds(a) {
					t.Errorf("%s: %d %s", a.what, a.status, a.body)
				}
			}
		})
	}
	each("rule 1.1 every answer is the envelope, with its members and no others", all, func(a *answered) bool {
		return !slices.ContainsFunc(a.keys, func(k string) bool {
			return !slices.Contains([]string{"success", "data", "error", "code", "request_id", "timestamp", "meta"}, k)
		})
	})
	each("rule 1.2 success is a boolean and says how it went", all, func(a *answered) bool {
		return string(a.m["success"]) == map[bool]string{true: "true", false: "false"}[slices.Contains(good, a)]
	})
	each("rule 1.3 data is an object", good, func(a *answered) bool { return a.m["data"] != nil && a.m["data"][0] == '{' })
	each("rule 1.4 error is a text for people", bad, func(a *answered) bool { s, ok := a.text("error"); return ok && strings.TrimSpace(s) != "" })
	each("rule 1.5 code is one of ErrorCode", bad, func(a *answered) bool {
		s, ok := a.text("code")
		return ok && slices.Contains(proxy.EnvelopeCodes(), proxy.EnvelopeCode(s))
	})
	each("rule 1.7 timestamp is a text", all, func(a *answered) bool { _, ok := a.text("timestamp"); return ok })
	each("rule 1.8 meta is an object, or not there", all, func(a *answered) bool { return a.m["meta"] == nil || a.m["meta"][0] == '{' })
	each("rule 1.9 with success there is data, and neither error nor code", good, func(a *answered) bool { return !a.null("data") && a.null("error") && a.null("code") })
	each("rule 1.10 without success there are error and code, and no data", bad, func(a *answered) bool { return a.null("data") && !a.null("error") && !a.null("code") })
	each("rule 1.11 request_id is a UUID of version 4", all, func(a *answered) bool { s, ok := a.text("request_id"); return ok && uuid4.MatchString(s) })
	each("rule 1.12 timestamp is ISO 8601 with milliseconds and Z", all, func(a *answered) bool { s, _ := a.text("timestamp"); return isoMillis.MatchString(s) })
	each("rule 1.13 meta.execution_time_ms is an integer that is not negative", all, func(a *answered) bool { return notNegative.Match(a.meta("execution_time_ms")) })
}

// Seed 000, ResponseEnvelope: the rules that take more than one answer.
func TestRulesEnvelopeSpecial(t *testing.T) {
	t.Run("rule 1.3 a result that is no object is no data", func(t *testing.T) {
		r := newRig(t, nil)
		for _, result := range []string{`null`, `[1]`, `"x"`, `7`, `true`} {
			r.s.result("tools/call", result)
			r.s.result("prompts/get", result)
			for path, body := range map[string]string{"/call-tool": `{"tool":"plain","arguments":{}}`, "/get-prompt": `{"name":"p"}`, "/mcp/prompts/get": `{"name":"p"}`} {
				a := r.ask("POST", path, body)
				if code, _ := a.text("code"); a.status != 500 || code != "EXECUTION_ERROR" || !strings.Contains(a.body, "result is no object") {
					t.Errorf("%s of %s: %d %s", path, result, a.status, a.body)
				}
			}
		}
	})
	t.Run("rule 1.6 request_id is the caller's or is made", func(t *testing.T) { ruleRequestID(t) })
	t.Run("rule 1.7 timestamp is that of the answer", func(t *testing.T) {
		r := newRig(t, nil)
		r.s.set("tools/call", func(ex *proxy.Exchange) (proxy.Replies, error) {
			r.advance(1500 * time.Millisecond)
			return replied(ex, `{}`), nil
		})
		a := r.ask("POST", "/tools/plain", `{}`)
		if at, _ := a.text("timestamp"); at != "2025-12-09T12:34:58.289Z" || string(a.meta("execution_time_ms")) != "1500" {
			t.Error(a.body)
		}
	})
	t.Run("rule 1.12 other zones and parts of milliseconds", func(t *testing.T) {
		at := time.Date(2026, 1, 1, 0, 30, 0, 999_999, time.FixedZone("", 3600))
		if got := envelope.Timestamp(at); got != "2025-12-31T23:30:00.000Z" {
			t.Error(got)
		}
	})
	t.Run("rule 1.13 a clock that goes back", func(t *testing.T) {
		r := newRig(t, nil)
		r.s.set("tools/call", func(ex *proxy.Exchange) (proxy.Replies, error) { r.advance(-time.Hour); return replied(ex, `{}`), nil })
		if a := r.ask("POST", "/tools/plain", `{}`); string(a.meta("execution_time_ms")) != "0" {
			t.Error(a.body)
		}
	})
	t.Run("rule 1.14 meta.rate_limit_remaining where a limit is known", func(t *testing.T) {
		for left, want := range map[int]string{7: `"meta":{"rate_limit_remaining":7}`, 0: `"rate_limit_remaining":0`, -1: `"rate_limit_remaining":0`} {
			e := envelope.Envelope{Success: true, Data: json.RawMessage(`{}`), Meta: envelope.Meta{Limited: true, Remaining: left}}
			if got := string(e.AppendJSON(nil)); !strings.Contains(got, want) {
				t.Error(got)
			}
		}
		if got := string((&envelope.Envelope{Success: true, Data: json.RawMessage(`{}`)}).AppendJSON(nil)); strings.Contains(got, "meta") {
			t.Error(got)
		}
	})
}

func ruleRequestID(t *testing.T) {
	r := newRig(t, nil)
	r.scripted()
	const other = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
	id := func(a *answered) string {
		t.Helper()
		s, _ := a.text("request_id")
		if a.header.Get("X-Request-ID") != s {
			t.Errorf("%s: X-Request-ID is %q: %s", a.what, a.header.Get("X-Request-ID"), a.body)
		}
		return s
	}
	for _, body := range []string{`{"tool":"plain","arguments":{},"request_id":"` + callerID + `"}`, `{"tool":"none","arguments":{},"request_id":"` + callerID + `"}`,
		`{"tool":"errs","arguments":{},"request_id":"` + callerID + `"}`, `{"tool":7,"request_id":"` + callerID + `"}`} {
		if got := id(r.ask("POST", "/call-tool", body)); got != callerID {
			t.Errorf("%s: %s", body, got)
		}
		if got := id(r.ask("POST", "/call-tool", body, "X-Request-ID", other)); got != callerID {
			t.Errorf("the header counts more than the body: %s", got)
		}
	}
	for _, q := range slices.Concat(goodRequests, badRequests) {
		if got := id(r.ask(q[0], q[1], q[2], "X-Request-ID", other)); got != other {
			t.Errorf("%v: %s", q, got)
		}
		if first, second := id(r.ask(q[0], q[1], q[2])), id(r.ask(q[0], q[1], q[2])); first == second {
			t.Errorf("%v: the same id was made twice: %s", q, first)
		}
	}
}

// Seed 000, ErrorCode: the codes, their causes and their statuses.
func TestRulesErrorCode(t *testing.T) {
	is := func(t *testing.T, a *answered, status int, want string) {
		t.Helper()
		if code, _ := a.text("code"); a.status != status || code != want {
			t.Errorf("%s: %d %s, want %d %s", a.what, a.status, a.body, status, want)
		}
	}
	r := newRig(t, nil)
	r.scripted()
	call := func(tool string) *answered { return r.ask("POST", "/call-tool", `{"tool":"`+tool+`","arguments":{}}`) }
	own := func(fault proxy.Fault) {
		r.s.set("tools/call", func(*proxy.Exchange) (proxy.Replies, error) { return nil, proxy.Errf(fault, "why") })
	}
	t.Run("rule 2.1 TOOL_NOT_FOUND with 404", func(t *testing.T) { is(t, call("none"), 404, "TOOL_NOT_FOUND") })
	t.Run("rule 2.2 INVALID_ARGUMENTS with 400", func(t *testing.T) {
		is(t, call("query_callers"), 400, "INVALID_ARGUMENTS") // a required member is missing
		is(t, r.ask("POST", "/tools/query_callers", `{"function_name":7}`), 400, "INVALID_ARGUMENTS")
	})
	t.Run("rule 2.3 EXECUTION_ERROR with 500", func(t *testing.T) {
		is(t, call("fails"), 500, "EXECUTION_ERROR")
		is(t, call("errs"), 500, "EXECUTION_ERROR")
	})
	t.Run("rule 2.4 INTERNAL_ERROR with 500", func(t *testing.T) {
		r.s.set("prompts/get", func(*proxy.Exchange) (proxy.Replies, error) { panic("a test") })
		is(t, r.ask("POST", "/get-prompt", `{"name":"p"}`), 500, "INTERNAL_ERROR")
	})
	t.Run("rule 2.5 TIMEOUT with 504", func(t *testing.T) {
		slow := newRig(t, func(o *Options) { o.Cap = 50 * time.Millisecond })
		slow.s.set("prompts/get", func(ex *proxy.Exchange) (proxy.Replies, error) {
			return &scriptedReplies{ex: ex, msgs: []string{""}, closed: make(chan struct{})}, nil
		})
		is(t, slow.ask("POST", "/get-prompt", `{"name":"p"}`), 504, "TIMEOUT")
	})
	t.Run("rule 2.6 RATE_LIMITED with 429", func(t *testing.T) {
		own(proxy.UpstreamLimited)
		is(t, call("plain"), 429, "RATE_LIMITED")
	})
	t.Run("rule 2.7 SERVICE_UNAVAILABLE with 503", func(t *testing.T) {
		for _, fault := range []proxy.Fault{proxy.ShuttingDown, proxy.EraUnknown, proxy.Unreachable} { // it stops; it starts
			own(fault)
			is(t, call("plain"), 503, "SERVICE_UNAVAILABLE")
		}
	})
	t.Run("rule 2.8 there are no other codes", func(t *testing.T) {
		for _, fault := range proxy.Faults() {
			own(fault)
			a := call("plain")
			code, _ := a.text("code")
			if !slices.Contains(proxy.EnvelopeCodes(), proxy.EnvelopeCode(code)) {
				t.Errorf("%s: %s", fault.Name, a.body)
			}
			if want := proxy.EnvelopeCode(code).Status(); a.status != want && !(code == "INVALID_ARGUMENTS" && a.status == fault.RESTStatus() && a.status > 400 && a.status < 500) {
				t.Errorf("%s: %d %s, want %d", fault.Name, a.status, code, want)
			}
		}
	})
}
