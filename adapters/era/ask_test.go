package era

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"dragoman/adapters/era/input"
	"dragoman/proxy"
)

// asking returns a legacy client's call in which a modern server asks.
func asking(t *testing.T, version, caps string, rounds int) *upCall {
	t.Helper()
	store, err := input.NewStore(input.Options{Rounds: rounds})
	if err != nil {
		t.Fatal(err)
	}
	client := proxy.Client{Version: version, Caps: []byte(caps)}
	s := proxy.NewSession("s", "stdio", "", proxy.Caller{}, time.Now())
	s.Initialize(client)
	c := &upCall{u: &Upstream{store: store}, method: "tools/call",
		ex: &proxy.Exchange{Msg: *scan(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`), Session: s, Client: client}}
	c.ask.wake = make(chan struct{}, 1)
	return c
}

func (c *upCall) asked(t *testing.T, requests string) error {
	t.Helper()
	return c.inquire(scan(t, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{`+requests+`}}}`))
}

func name(err error) string {
	var e *proxy.Error
	if errors.As(err, &e) {
		return e.Name
	}
	return fmt.Sprint(err)
}

// A user who has agreed to open a page is not asked again. The call is sent again with growing pauses.
func TestVisitBackoff(t *testing.T) {
	c := asking(t, "2025-11-25", `{"elicitation":{"url":{}}}`, 100)
	c.ask.consents = map[string][]byte{"https://e.example/1": []byte(`{"action":"accept"}`)}
	again := `"u":{"method":"elicitation/create","params":{"mode":"url","url":"https://e.example/1"}}`
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		if err := c.asked(t, again); err != nil || len(c.out) != 0 || c.ex.Session.OpenQuestions() != 0 {
			t.Fatalf("%v, %d messages", err, len(c.out))
		}
		if c.ask.wait != want*time.Second || time.Until(c.ask.due) > c.ask.wait || time.Until(c.ask.due) < c.ask.wait/2 {
			t.Errorf("attempt %d after %s, due in %s", i+1, c.ask.wait, time.Until(c.ask.due))
		}
	}
	// another page is another question
	if err := c.asked(t, again+`,"v":{"method":"elicitation/create","params":{"mode":"url","url":"https://e.example/2"}}`); err != nil || len(c.out) != 1 {
		t.Errorf("%v, %d messages", err, len(c.out))
	}
	if !time.Now().After(c.ask.due) && !c.ask.due.IsZero() {
		t.Error("waits although somebody is being asked")
	}
}

// If one question of a round cannot be asked, none is asked, and no answer stays outstanding.
func TestInquiryIsWhole(t *testing.T) {
	f := func(caps, requests, want string) {
		t.Helper()
		c := asking(t, "2025-11-25", caps, 10)
		if err := c.asked(t, requests); name(err) != want || len(c.out) != 0 || c.ex.Session.OpenQuestions() != 0 || c.ask.again {
			t.Errorf("%s: %v, %d messages, %d owed", requests[:min(len(requests), 80)], err, len(c.out), c.ex.Session.OpenQuestions())
		}
	}
	root := func(i int) string { return fmt.Sprintf(`"r%d":{"method":"roots/list"}`, i) }
	f(`{"roots":{}}`, root(1)+`,"e":{"method":"elicitation/create","params":{}}`, "question_not_supported")
	f(`{"roots":{}}`, root(1)+`,"e":{"method":5}`, "question_not_supported")
	f(`{"roots":{}}`, root(1)+`,"e":5`, "question_not_supported")
	many := make([]string, 300)
	for i := range many {
		many[i] = root(i)
	}
	f(`{"roots":{}}`, strings.Join(many, ","), "upstream_overloaded")
	ended := asking(t, "2025-11-25", `{"roots":{}}`, 10)
	ended.ex.Session.End(proxy.Closed)
	if err := ended.asked(t, root(1)); err == nil || len(ended.out) != 0 {
		t.Errorf("asks in a session that has ended: %v", err)
	}
}

// The first error ends the wait, even while other questions are open. An answer that is not an object is an error.
func TestAnswered(t *testing.T) {
	c := asking(t, "2025-11-25", `{"roots":{}}`, 10)
	if err := c.asked(t, `"a":{"method":"roots/list"},"b":{"method":"roots/list"},"c":{"method":"roots/list"}`); err != nil {
		t.Fatal(err)
	}
	for _, answer := range []string{`{"jsonrpc":"2.0","id":"dragoman-3","error":{"code":-1,"message":"no"}}`, `{"jsonrpc":"2.0","id":"dragoman-1","error":{"code":-2,"message":"later"}}`} {
		if !c.ex.Session.Answer(scan(t, answer)) {
			t.Fatalf("nobody wanted %s", answer)
		}
	}
	if err := c.await(time.Time{}); err != nil || !c.over || len(c.out) != 5 {
		t.Fatalf("%v %v %q", err, c.over, c.out)
	}
	want := []string{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"dragoman-2","reason":"the request in which this was asked has ended"}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"the client could not answer the server's question: no (code -1)"}],"isError":true}}`}
	for i, w := range want {
		if got := string(c.out[3+i]); got != w {
			t.Errorf("%s\nwant %s", got, w)
		}
	}
	if c.ex.Session.OpenQuestions() != 0 {
		t.Error("an answer is owed")
	}
	c = asking(t, "2025-11-25", `{"roots":{}}`, 10)
	_ = c.asked(t, `"a":{"method":"roots/list"}`)
	c.ex.Session.Answer(scan(t, `{"jsonrpc":"2.0","id":"dragoman-1","result":[1]}`))
	if c.ask.failed == "" {
		t.Error("an array was taken for an answer")
	}
}

// Waiting for answers ends at the deadline and with the exchange.
func TestAwaitUntil(t *testing.T) {
	c := asking(t, "2025-11-25", `{"roots":{}}`, 10)
	_ = c.asked(t, `"a":{"method":"roots/list"}`)
	if err := c.await(time.Now().Add(time.Millisecond)); err != proxy.ErrNotYet {
		t.Errorf("%v", err)
	}
	go c.ex.Cancel(proxy.ErrCancelled)
	if err := c.await(time.Time{}); err != nil || c.err != proxy.ErrCancelled || c.ex.Session.OpenQuestions() != 0 {
		t.Errorf("%v %v", err, c.err)
	}
}

// Progress rises across rounds; within the first it passes unchecked.
func TestRisen(t *testing.T) {
	c := &upCall{}
	f := func(progress string, want bool) {
		t.Helper()
		if got := c.progressRises(scan(t, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":`+progress+`}}`)); got != want {
			t.Errorf("round %d, %s: %v", c.ask.rounds, progress, got)
		}
	}
	f("0.5", true)
	f("0.2", true)
	f(`"none"`, true)
	c.ask.rounds = 1
	f("0.5", false)
	f("0.50", false)
	f("0.2", false)
	f("0.51", true)
	f("5e-1", false)
	f("1e300", true)
	f("7", false)
	f(`"none"`, true)
}
