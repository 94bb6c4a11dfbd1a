package limits

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/policies"
	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// timedReplies come at their times after the call.
type timedReplies struct {
	t      *testing.T
	began  time.Time
	script []timedReply
	closed bool
}

type timedReply struct {
	at  time.Duration
	raw string
}

func (r *timedReplies) Next(until time.Time) (*wire.Message, error) {
	if len(r.script) == 0 {
		return nil, io.EOF
	}
	due := r.began.Add(r.script[0].at)
	if !until.IsZero() && until.Before(due) {
		time.Sleep(time.Until(until)) // in a synctest bubble: no real time passes
		return nil, proxy.ErrNotYet
	}
	time.Sleep(time.Until(due)) // virtual time: the server is silent
	raw := r.script[0].raw
	r.script = r.script[1:]
	m := policytest.Scan(r.t, raw)
	return &m, nil
}

func (r *timedReplies) Close() error { r.closed = true; return nil }

func TestTimeouts(t *testing.T) {
	const (
		progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`
		question = `{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{}}`
		result   = `{"jsonrpc":"2.0","id":1,"result":{}}`
		slow     = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{}}}`
	)
	for name, c := range map[string]struct {
		request string
		script  []timedReply
		lasting bool
		after   time.Duration // how long the call takes
		fails   string        // empty: with its response
	}{
		"in time":                        {slow, []timedReply{{29 * time.Second, result}}, false, 29 * time.Second, ""},
		"too late":                       {slow, []timedReply{{31 * time.Second, result}}, false, 30 * time.Second, "the tool was silent for 30s, the most that tool_timeout allows"},
		"progress is a sign of life":     {slow, []timedReply{{20 * time.Second, progress}, {40 * time.Second, progress}, {69 * time.Second, result}}, false, 69 * time.Second, ""},
		"silence after progress":         {slow, []timedReply{{20 * time.Second, progress}, {51 * time.Second, result}}, false, 50 * time.Second, "silent for 30s"},
		"a question stops the clock":     {slow, []timedReply{{20 * time.Second, question}, {20 * time.Minute, progress}, {1229 * time.Second, result}}, false, 1229 * time.Second, ""},
		"it goes on with the next":       {slow, []timedReply{{20 * time.Second, question}, {20 * time.Minute, progress}, {1231 * time.Second, result}}, false, 1230 * time.Second, "silent for 30s"},
		"a task is silent by its nature": {slow, []timedReply{{time.Hour, result}}, true, time.Hour, ""},
		"of the tool": {strings.Replace(slow, "slow", "quick", 1), []timedReply{{5 * time.Second, result}}, false, 2 * time.Second,
			`the most that upstreams.up.tools."quick".timeout allows`},
		"of tools that begin so":        {strings.Replace(slow, "slow", "build_all", 1), []timedReply{{time.Hour, result}}, false, time.Hour, ""},
		"of resources":                  {`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a:b"}}`, []timedReply{{time.Hour, result}}, false, 10 * time.Second, "resource_timeout"},
		"of prompts":                    {`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"slow"}}`, []timedReply{{time.Hour, result}}, false, 5 * time.Second, "prompt_timeout"},
		"of completion":                 {`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{}}`, []timedReply{{time.Hour, result}}, false, 5 * time.Second, "prompt_timeout"},
		"of lists":                      {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`, []timedReply{{time.Hour, result}}, false, 30 * time.Second, "tool_timeout"},
		"what lasts has none":           {`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}`, []timedReply{{time.Hour, result}}, false, time.Hour, ""},
		"what opens a session has none": {`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, []timedReply{{time.Hour, result}}, false, time.Hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limits := &Timeouts{Tool: 30 * time.Second, Resource: 10 * time.Second, Prompt: 5 * time.Second, Server: "up",
					Tools: policies.NewPatterns(map[string]time.Duration{"quick": 2 * time.Second, "build_*": 0})}
				inner := &timedReplies{t: t, began: time.Now(), script: c.script}
				ex := &proxy.Exchange{Msg: policytest.Scan(t, c.request)}
				ex.Lasting.Store(c.lasting)
				replies, err := limits.Policy(func(*proxy.Exchange) (proxy.Replies, error) { return inner, nil })(ex)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				for m := new(wire.Message); err == nil && !m.IsResponse() || errors.Is(err, proxy.ErrNotYet); {
					m, err = replies.Next(time.Now().Add(5 * time.Second)) // like an endpoint that keeps its stream alive
				}
				if took := time.Since(began); took != c.after {
					t.Errorf("over after %v, want %v", took, c.after)
				}
				var e *proxy.Error
				switch {
				case c.fails == "" && err != nil:
					t.Error(err)
				case c.fails != "" && (!errors.As(err, &e) || e.Name != proxy.UpstreamTimeout.Name || !strings.Contains(e.Message, c.fails)):
					t.Errorf("%v, want %q", err, c.fails)
				}
				if err := replies.Close(); err != nil || !inner.closed {
					t.Errorf("closed %v, %v: closing is what cancels the call", inner.closed, err)
				}
			})
		})
	}
}
