package hook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies"
	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// result makes the decision point permit requests and answer a question about a result.
func (r *rig) result(answer func(ctx context.Context) (string, error)) {
	r.answer = func(ctx context.Context, question string) (string, error) {
		if strings.Contains(question, `"phase":"result"`) {
			return answer(ctx)
		}
		return `{"result":true}`, nil
	}
}

// A result comes if it is permitted. Else there is an error, by which nobody calls again what was carried out.
func TestResults(t *testing.T) {
	const done = "the server has carried out the request, but "
	for name, c := range map[string]struct {
		answer string
		err    error
		open   bool
		want   string
	}{
		"permitted":       {answer: `{"result":true}`},
		"denied":          {answer: `{"result":false}`, want: done + "the policy hook has denied the result"},
		"denied, why":     {answer: `{"result":{"allow":false,"reason":"a name"}}`, want: done + "the policy hook has denied the result: a name"},
		"denied, open":    {answer: `{"result":false}`, open: true, want: done + "the policy hook has denied the result"},
		"failed":          {err: policytest.StatusError(502), want: done + "the policy hook (policy_hook) cannot be asked about the result: HTTP status 502"},
		"failed, allowed": {err: policytest.StatusError(502), open: true},
	} {
		r := newRig(t, Options{Results: true, FailOpen: c.open})
		r.replies = []string{policytest.Notification, aResult}
		r.result(func(context.Context) (string, error) { return c.answer, c.err })
		replies, err := r.do(r.exchange(aCall))
		if err != nil {
			t.Fatal(err)
		}
		if m, err := next(replies); err != nil || m.Kind != wire.Notification || len(r.asked) != 1 {
			t.Errorf("%s: %v, %v, asked %d times", name, m, err, len(r.asked))
		}
		m, err := next(replies)
		if c.want == "" {
			if err != nil || string(m.Append(nil)) != aResult {
				t.Errorf("%s: %v", name, err)
			}
		} else if e := proxy.AsError(err); e.Name != "policy_denied" || e.Retryable || e.Message != c.want || (e.Cause != nil) != (c.err != nil) {
			t.Errorf("%s: %+v", name, err)
		}
		if err := replies.Close(); err != nil {
			t.Error(err)
		}
		outcome := map[bool]string{true: "failed", false: "denied"}[c.err != nil]
		if name == "permitted" {
			outcome = "allowed"
		}
		if len(r.asked) != 2 || r.counted("result", outcome, "asked") != 1 {
			t.Errorf("%s: asked %d times, counted as %s %v times", name, len(r.asked), outcome, r.counted("result", outcome, "asked"))
		}
	}
	r := newRig(t, Options{})
	r.wants(r.run(aCall), "", 1, 1) // results are not asked about unless that is wanted
	r = newRig(t, Options{Results: true})
	r.replies = []string{policytest.Failure}
	r.wants(r.run(aCall), "", 1, 1)
}

// A question about a result lets the client's stream go on: nothing has come until it is answered.
func TestSlowQuestionsAboutResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Results: true, Timeout: 10 * time.Second})
		r.result(func(context.Context) (string, error) {
			time.Sleep(2500 * time.Millisecond)
			return `{"result":true}`, nil
		})
		replies, err := r.do(r.exchange(aCall))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = replies.Close() }()
		for range 2 {
			began := time.Now()
			if m, err := replies.Next(began.Add(time.Second)); !errors.Is(err, proxy.ErrNotYet) || m != nil || time.Since(began) != time.Second {
				t.Fatalf("%v, %v after %v", m, err, time.Since(began))
			}
		}
		began := time.Now()
		if m, err := replies.Next(began.Add(time.Second)); err != nil || m.Kind != wire.Result || time.Since(began) != time.Second/2 || len(r.asked) != 2 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// Questions about results end with their time, with the client, and with the replies.
func TestQuestionsAboutResultsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Results: true, Timeout: 3 * time.Second})
		r.result(func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		began := time.Now()
		err := r.run(aCall)
		if policytest.Row(err) != "policy_denied" || !strings.Contains(err.Error(), "no answer within 3s") || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ex := r.exchange(aCall)
		time.AfterFunc(time.Second, func() { ex.Cancel(proxy.ErrCancelled) })
		began = time.Now()
		if err := policytest.Drain(r.do(ex)); !errors.Is(err, proxy.ErrCancelled) || time.Since(began) != time.Second || len(r.failed) != 2 || r.failed[1] != nil {
			t.Errorf("%v after %v; reported %v", err, time.Since(began), r.failed)
		}
		replies, err := r.do(r.exchange(aCall))
		if err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		if _, err := replies.Next(began.Add(1)); !errors.Is(err, proxy.ErrNotYet) {
			t.Error(err)
		}
		if err := replies.Close(); err != nil || time.Since(began) != 1 {
			t.Errorf("%v; Close took %v", err, time.Since(began))
		}
	})
}

// The question is about the result as the client would get it.
func TestEditedResults(t *testing.T) {
	r := newRig(t, Options{Results: true, Arguments: policies.Arguments{What: policies.ArgumentsFull}})
	edited := r.exchange(aCall)
	h := New(Options{Ask: func(_ context.Context, question []byte) ([]byte, error) {
		r.asked = append(r.asked, string(question))
		return []byte(`{"result":true}`), nil
	}, Methods: []string{"tools/call"}, Results: true, Timeout: time.Second, Arguments: policies.Arguments{What: policies.ArgumentsFull}, Metrics: newMetrics(t, prometheus.NewRegistry())})
	replies, err := h.Policy("up", func([]byte) []byte { return nil })(func(*proxy.Exchange) (proxy.Replies, error) {
		m := policytest.Scan(t, aResult)
		m.Replace(wire.Get(m.Raw, m.Result, "token"), []byte(`"changed"`))
		return proxy.Reply(m), nil
	})(edited)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = replies.Close() }()
	m, err := next(replies)
	if err != nil || string(m.Append(nil)) != strings.Replace(aResult, "s3cret", "changed", 1) {
		t.Errorf("%v", err)
	}
	if len(r.asked) != 2 || !strings.Contains(r.asked[1], `"result":{"content":[],"token":"changed"}`) {
		t.Errorf("asked %s", r.asked)
	}
}

// A result in which a member stands twice is denied: the decision point and the client may read one of the two each.
func TestAmbiguousResults(t *testing.T) {
	r := newRig(t, Options{Results: true, FailOpen: true, Arguments: policies.Arguments{What: policies.ArgumentsFull}})
	r.replies = []string{`{"jsonrpc":"2.0","id":1,"result":{"x":1,"x":2}}`}
	err := r.run(aCall)
	r.wants(err, "policy_denied", 1, 1)
	if !strings.Contains(err.Error(), "which is therefore denied: it has a member twice") || r.counted("result", "denied", "unasked") != 1 {
		t.Error(err)
	}
}

// The result of a fallback was asked about where the fallback was chosen.
func TestResultsOfAFallback(t *testing.T) {
	r := newRig(t, Options{Results: true})
	ex := r.exchange(aCall)
	replies, err := r.do(ex)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = replies.Close() }()
	ex.Target = "other"
	if m, err := next(replies); err != nil || m.Kind != wire.Result || len(r.asked) != 1 {
		t.Errorf("%v, asked %d times", err, len(r.asked))
	}
}

// The result of a call that runs as a task comes later. It is asked about as that of any call, and the polls before are not.
func TestResultsOfTasks(t *testing.T) {
	const get = `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"7"}}`
	result := strings.Replace(get, "tasks/get", "tasks/result", 1)
	const works, done = `{"jsonrpc":"2.0","id":1,"result":{"status":"working"}}`, `{"jsonrpc":"2.0","id":1,"result":{"status":"completed","result":{"content":[]}}}`
	for _, c := range []struct {
		methods      []string
		results      bool
		asks, answer string
		asked        string // phases
	}{
		{[]string{"tools/call"}, true, get, works, ""},
		{[]string{"tools/call"}, true, get, done, "result"},
		{[]string{"tools/call"}, true, result, aResult, "result"},
		{[]string{"tools/call"}, false, result, aResult, ""},
		{[]string{"tools/call"}, false, get, done, ""},
		{[]string{"prompts/get"}, true, result, aResult, ""},
		{[]string{"prompts/get"}, true, get, done, ""},
		{[]string{"tasks/get"}, true, get, works, "request result"},
		{[]string{"tasks/result", "tools/call"}, true, result, aResult, "request result"},
		{[]string{"tasks/result", "tools/call"}, false, result, aResult, "request"},
		{[]string{"tools/call"}, true, strings.Replace(get, "tasks/get", "tasks/list", 1), done, ""},
	} {
		r := newRig(t, Options{Results: c.results, Methods: c.methods})
		r.replies = []string{c.answer}
		if err := r.run(c.asks); err != nil || r.served != 1 {
			t.Errorf("%s: %v", c.asks, err)
		}
		var phases []string
		for _, q := range r.asked {
			phases = append(phases, map[bool]string{true: "result", false: "request"}[strings.Contains(q, `"phase":"result"`)])
			if !strings.Contains(q, `"task":"7"`) {
				t.Errorf("asked %s", q)
			}
		}
		if got := strings.Join(phases, " "); got != c.asked {
			t.Errorf("%v, results: %v, %s: asked %q, want %q", c.methods, c.results, c.asks, got, c.asked)
		}
	}
	r := newRig(t, Options{Results: true, FailOpen: true})
	err := r.run(strings.Replace(result, `"7"`, `"`+strings.Repeat("7", maxName)+`"`, 1))
	r.wants(err, "policy_denied", 1, 0)
	if !strings.Contains(err.Error(), "the server has carried out the request, but the policy hook is not asked about the result, which is therefore denied: its task does not fit into a question") {
		t.Error(err)
	}
	r = newRig(t, Options{Results: true})
	r.answers(`{"result":false}`)
	r.wants(r.run(result), "policy_denied", 1, 1)
}

// A question about a result says that something was cut if its arguments were, or the result.
func TestCutArgumentsOrResults(t *testing.T) {
	long := strings.Repeat("x", maxText+1)
	for _, c := range []struct {
		argument, text string
		cut            [2]bool // in the question about the request, and about the result
	}{{"x", "x", [2]bool{false, false}}, {long, "x", [2]bool{true, true}}, {"x", long, [2]bool{false, true}}} {
		r := newRig(t, Options{Results: true, Arguments: policies.Arguments{What: policies.ArgumentsFull}})
		r.replies = []string{`{"jsonrpc":"2.0","id":1,"result":{"a":"` + c.text + `"}}`}
		r.wants(r.run(strings.Replace(aCall, "/a", c.argument, 1)), "", 1, 2)
		for i, question := range r.asked {
			if !strings.Contains(question, fmt.Sprintf(`,"cut":%v,`, c.cut[i])) {
				t.Errorf("%.10s, %.10s, %d: cut is not %v", c.argument, c.text, i, c.cut[i])
			}
		}
	}
}
