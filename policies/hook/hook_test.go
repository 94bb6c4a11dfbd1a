package hook

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/policies"
	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
)

// The server is asked if the decision point permits, and not otherwise; the client learns the reason.
func TestDecisions(t *testing.T) {
	for text, want := range map[string]string{
		`{"result":true}`:                        "",
		`{"result":{"allow":true,"reason":"x"}}`: "",
		`{"result":false}`:                       "the policy hook has denied this request",
		`{}`:                                     "the policy hook has denied this request",
		`{"result":{"allow":false,"reason":"not here"}}`:                          "the policy hook has denied this request: not here",
		`{"result":{"allow":false,"reason":"a\u001b[2Jb"}}`:                       `the policy hook has denied this request: a\u001b[2Jb`,
		`{"result":{"allow":false,"reason":"` + strings.Repeat("x", 2000) + `"}}`: "the policy hook has denied this request: " + strings.Repeat("x", 256) + "… (2000 bytes)",
	} {
		r := newRig(t, Options{})
		r.answers(text)
		err := r.run(aCall)
		if want == "" {
			r.wants(err, "", 1, 1)
			continue
		}
		r.wants(err, "policy_denied", 0, 1)
		if e := proxy.AsError(err); e.Message != want || e.Retryable || e.RESTStatus() != 403 || e.Status != 0 {
			t.Errorf("%s: %+v", text, e)
		}
		if n := r.counted("request", "denied", "asked"); n != 1 || policytest.Metric(t, r.metrics, "dragoman_policy_hook_answers_total") != 1 || policytest.Metric(t, r.metrics, "dragoman_policy_hook_seconds") != 1 {
			t.Errorf("%s: counted %v", text, n)
		}
	}
}

// A question that fails denies, or permits if that was chosen. The error says why in words of our own, and names what to look at.
func TestFailures(t *testing.T) {
	secret := errors.New("dial tcp 10.1.2.3:99: s3cret")
	for name, c := range map[string]struct {
		answer string
		err    error
		want   string
	}{
		"no connection": {err: secret, want: "no connection to it"},
		"status":        {err: policytest.StatusError(500), want: "HTTP status 500"},
		"no JSON":       {answer: "<html>", want: "its answer is no JSON object"},
		"an array":      {answer: "[true]", want: "its answer is no JSON object"},
		"late":          {err: context.DeadlineExceeded, want: "no answer within 1s"},
	} {
		r := newRig(t, Options{})
		r.answer = func(context.Context, string) (string, error) { return c.answer, c.err }
		err := r.run(aCall)
		r.wants(err, "policy_unavailable", 0, 1)
		e := proxy.AsError(err)
		if !e.Retryable || e.RESTStatus() != 503 || e.Message != "the policy hook (policy_hook) cannot be asked about this request, which was not sent to the server: "+c.want || e.Cause == nil {
			t.Errorf("%s: %+v", name, e)
		}
		if r.counted("request", "failed", "asked") != 1 || policytest.Metric(t, r.metrics, "dragoman_policy_hook_seconds") != 0 {
			t.Errorf("%s is not counted as failed", name)
		}
		r = newRig(t, Options{FailOpen: true})
		r.answer = func(context.Context, string) (string, error) { return c.answer, c.err }
		r.wants(r.run(aCall), "", 1, 1)
		if r.counted("request", "failed", "asked") != 1 {
			t.Errorf("%s is not counted as failed", name)
		}
		r.answers(`{"result":false}`)
		r.wants(r.run(aCall), "policy_denied", 1, 2)
	}
}

// Failures are reported when they begin and when they end.
func TestFailingIsReported(t *testing.T) {
	r := newRig(t, Options{})
	why := errors.New("away")
	for range 2 {
		r.answers(`{"result":true}`)
		if err := r.run(aCall); err != nil {
			t.Error(err)
		}
		r.fails(why)
		_, _ = r.run(aCall), r.run(aCall)
	}
	if want := []error{why, nil, why}; len(r.failed) != 3 || !errors.Is(r.failed[0], why) || r.failed[1] != nil || !errors.Is(r.failed[2], why) {
		t.Errorf("reported %v, want %v", r.failed, want)
	}
}

// A question has its time. It ends with the request, of which it then is no failure.
func TestQuestionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Timeout: 3 * time.Second})
		r.answer = func(ctx context.Context, _ string) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}
		began := time.Now()
		r.wants(r.run(aCall), "policy_unavailable", 0, 1)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("a question took %v", took)
		}
		ex := r.exchange(aCall)
		time.AfterFunc(time.Second, func() { ex.Cancel(proxy.ErrCancelled) })
		began = time.Now()
		_, err := r.do(ex)
		if !errors.Is(err, proxy.ErrCancelled) || time.Since(began) != time.Second || len(r.failed) != 1 || r.counted("request", "failed", "asked") != 1 {
			t.Errorf("%v after %v; reported %v", err, time.Since(began), r.failed)
		}
	})
}

// The policies behind see the time after the question.
func TestClockAfterAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		r.answer = func(context.Context, string) (string, error) {
			time.Sleep(time.Second / 2)
			return `{"result":true}`, nil
		}
		ex := r.exchange(aCall)
		before := ex.Clock.Now()
		if err := policytest.Drain(r.do(ex)); err != nil || ex.Clock.Now().Sub(before) != time.Second/2 {
			t.Errorf("%v; the clock says %v", err, ex.Clock.Now().Sub(before))
		}
	})
}

// Nobody is asked about notifications, other methods, and without a hook.
func TestNotAsked(t *testing.T) {
	r := newRig(t, Options{})
	r.answers(`{"result":false}`)
	for _, raw := range []string{policytest.List, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"rm"}}`} {
		if err := r.run(raw); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
	r.wants(nil, "", 3, 0)
	if (*Hook)(nil).Policy("up", nil) != nil {
		t.Error("a hook that is off is a policy")
	}
}

// What a question cannot describe is denied, however failures are dealt with.
func TestUnasked(t *testing.T) {
	long := strings.Repeat("x", maxName)
	for raw, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + long + `"}}`:                                   "its tool does not fit",
		`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"` + long + `"}}`:                                  "its prompt does not fit",
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///secret?` + long + `"}}`:                 "its resource does not fit",
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"` + strings.Repeat(`\u0001`, maxName/2) + `"}}`: "its resource does not fit",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm","arguments":{"path":"/a","path":"/b"}}}`:       "its arguments have a member twice",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm","arguments":{"a":[{"p":1,"\u0070":2}]}}}`:      "its arguments have a member twice",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm","arguments":{"a":{"b":{"c":1,"d":2,"c":3}}}}}`: "its arguments have a member twice",
	} {
		r := newRig(t, Options{FailOpen: true, Arguments: policies.Arguments{What: policies.ArgumentsFull}})
		err := r.run(raw)
		r.wants(err, "policy_denied", 0, 0)
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "which is therefore denied") || r.counted("request", "denied", "unasked") != 1 {
			t.Errorf("%.100s: %v", raw, err)
		}
	}
	for raw, want := range map[string]string{
		`"tools/call","params":{}`:                                     "its tool is no text",
		`"tools/call","params":{"name":7}`:                             "its tool is no text",
		`"prompts/get","params":{"name":[]}`:                           "its prompt is no text",
		`"resources/read","params":{}`:                                 "its resource is no text",
		`"tasks/get","params":{"taskId":{}}`:                           "its task is no text",
		`"completion/complete","params":{"ref":{"type":"ref/prompt"}}`: "its prompt is no text",
		`"completion/complete","params":{}`:                            "its prompt is no text",
		`"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p","uri":"file:///a"}}`: "its reference has both a name and a URI",
	} {
		r := newRig(t, Options{FailOpen: true, Methods: []string{"tools/call", "prompts/get", "resources/read", "tasks/get", "completion/complete"}})
		err := r.run(`{"jsonrpc":"2.0","id":1,"method":` + raw + `}`)
		r.wants(err, "policy_denied", 0, 0)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", raw, err)
		}
	}
	for _, what := range []string{policies.ArgumentsKeys, policies.ArgumentsRedacted} {
		r := newRig(t, Options{Arguments: policies.Arguments{What: what}})
		r.wants(r.run(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm","arguments":{"a":["x","x",{"a":1},{"a":1}],"x":{"a":"a"}}}}`), "", 1, 1)
		r.wants(r.run(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm","arguments":["x","x"]}}`), "", 2, 2)
	}
	r := newRig(t, Options{Arguments: policies.Arguments{What: policies.ArgumentsKeys}})
	r.wants(r.run(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm","arguments":{"path":"/a","path":"/b"}}}`), "policy_denied", 0, 0)
	r = newRig(t, Options{})
	r.wants(r.run(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm","arguments":{"path":"/a","path":"/b"}}}`), "", 1, 1)
	for _, change := range []func(ex *proxy.Exchange){
		func(ex *proxy.Exchange) { ex.Caller.Principal = strings.Repeat("x", maxIdentity+1) },
		func(ex *proxy.Exchange) { ex.Caller.Rights.Name = strings.Repeat("x", maxIdentity+1) },
		func(ex *proxy.Exchange) { ex.Caller.Rights.Scopes = []string{strings.Repeat("x", maxScopes)} },
		func(ex *proxy.Exchange) { ex.PublicName = []byte(long) },
	} {
		r := newRig(t, Options{})
		ex := r.exchange(aCall)
		change(ex)
		r.wants(policytest.Drain(r.do(ex)), "policy_denied", 0, 0)
	}
}

// A question has a span if its request has one, and carries it.
func TestSpans(t *testing.T) {
	of, own := &proxy.Trace{Parent: "00-of"}, &proxy.Trace{Parent: "00-own"}
	for _, c := range []struct {
		of     *proxy.Trace
		answer string
		err    error
		want   []string
	}{
		{of, `{"result":true}`, nil, []string{"request", "allowed"}},
		{of, `{"result":false}`, nil, []string{"request", "denied"}},
		{of, ``, errors.New("away"), []string{"request", "failed"}},
		{nil, `{"result":true}`, nil, nil},
	} {
		var spans []string
		r := newRig(t, Options{Span: func(parent *proxy.Trace, phase string) (*proxy.Trace, func(string)) {
			if parent != of {
				t.Errorf("the parent is %+v", parent)
			}
			spans = append(spans, phase)
			return own, func(outcome string) { spans = append(spans, outcome) }
		}})
		r.answer = func(ctx context.Context, _ string) (string, error) {
			if got := proxy.TraceIn(ctx); (got == own) != (c.of != nil) {
				t.Errorf("the question carries %+v", got)
			}
			return c.answer, c.err
		}
		ex := r.exchange(aCall)
		ex.Trace = c.of
		_ = policytest.Drain(r.do(ex))
		if !slices.Equal(spans, c.want) {
			t.Errorf("%s: %v, want %v", c.answer, spans, c.want)
		}
	}
}
