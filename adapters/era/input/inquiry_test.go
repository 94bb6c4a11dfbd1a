package input

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/proxy"
)

// newInquiry returns the Inquiry of a legacy client's call in which a modern server asks.
func newInquiry(t *testing.T, version, caps string, rounds int) *Inquiry {
	t.Helper()
	store, err := NewStore(Options{Rounds: rounds})
	if err != nil {
		t.Fatal(err)
	}
	client := proxy.Client{Version: version, Caps: []byte(caps)}
	s := proxy.NewSession("s", "stdio", "", proxy.Caller{}, time.Now())
	s.Initialize(client)
	return NewInquiry(&proxy.Exchange{Msg: *fakeserver.Scan(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`), Session: s, Client: client}, store)
}

// asked reads a result with questions, and returns the messages for the client.
func (i *Inquiry) asked(t *testing.T, requests string) ([][]byte, error) {
	t.Helper()
	return i.Ask(fakeserver.Scan(t, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{`+requests+`}}}`))
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
	c := newInquiry(t, "2025-11-25", `{"elicitation":{"url":{}}}`, 100)
	c.consents = map[string][]byte{"https://e.example/1": []byte(`{"action":"accept"}`)}
	again := `"u":{"method":"elicitation/create","params":{"mode":"url","url":"https://e.example/1"}}`
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		if out, err := c.asked(t, again); err != nil || len(out) != 0 || c.ex.Session.OpenQuestions() != 0 {
			t.Fatalf("%v, %d messages", err, len(out))
		}
		if c.wait != want*time.Second || time.Until(c.due) > c.wait || time.Until(c.due) < c.wait/2 {
			t.Errorf("attempt %d after %s, due in %s", i+1, c.wait, time.Until(c.due))
		}
	}
	// another page is another question
	if out, err := c.asked(t, again+`,"v":{"method":"elicitation/create","params":{"mode":"url","url":"https://e.example/2"}}`); err != nil || len(out) != 1 {
		t.Errorf("%v, %d messages", err, len(out))
	}
	if !time.Now().After(c.due) && !c.due.IsZero() {
		t.Error("timed out although a question is open")
	}
}

// If one question of a round cannot be asked, none is asked, and no answer stays outstanding.
func TestInquiryIsWhole(t *testing.T) {
	f := func(caps, requests, want string) {
		t.Helper()
		c := newInquiry(t, "2025-11-25", caps, 10)
		if out, err := c.asked(t, requests); name(err) != want || len(out) != 0 || c.ex.Session.OpenQuestions() != 0 || c.open {
			t.Errorf("%s: %v, %d messages, %d open questions", requests[:min(len(requests), 80)], err, len(out), c.ex.Session.OpenQuestions())
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
	ended := newInquiry(t, "2025-11-25", `{"roots":{}}`, 10)
	ended.ex.Session.End(proxy.Closed)
	if out, err := ended.asked(t, root(1)); err == nil || len(out) != 0 {
		t.Errorf("asks in a session that has ended: %v", err)
	}
}

// The first error ends the wait, even while other questions are open. An answer that is not an object is an error.
func TestAnswered(t *testing.T) {
	c := newInquiry(t, "2025-11-25", `{"roots":{}}`, 10)
	if out, err := c.asked(t, `"a":{"method":"roots/list"},"b":{"method":"roots/list"},"c":{"method":"roots/list"}`); err != nil || len(out) != 3 {
		t.Fatal(err, len(out))
	}
	for _, answer := range []string{`{"jsonrpc":"2.0","id":"dragoman-3","error":{"code":-1,"message":"no"}}`, `{"jsonrpc":"2.0","id":"dragoman-1","error":{"code":-2,"message":"later"}}`} {
		if !c.ex.Session.Answer(fakeserver.Scan(t, answer)) {
			t.Fatalf("no wait for %s", answer)
		}
	}
	out, err := c.Wait(time.Time{})
	if err != io.EOF || len(out) != 2 {
		t.Fatalf("%v %q", err, out)
	}
	want := []string{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"dragoman-2","reason":"the request in which this was asked has ended"}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"the client could not answer the server's question: no (code -1)"}],"isError":true}}`}
	for i, w := range want {
		if got := string(out[i]); got != w {
			t.Errorf("%s\nwant %s", got, w)
		}
	}
	if c.ex.Session.OpenQuestions() != 0 {
		t.Error("a question is open")
	}
	c = newInquiry(t, "2025-11-25", `{"roots":{}}`, 10)
	_, _ = c.asked(t, `"a":{"method":"roots/list"}`)
	c.ex.Session.Answer(fakeserver.Scan(t, `{"jsonrpc":"2.0","id":"dragoman-1","result":[1]}`))
	if c.failed == "" {
		t.Error("an array was taken for an answer")
	}
}

// Waiting for answers ends at the deadline and with the exchange.
func TestWaitUntil(t *testing.T) {
	c := newInquiry(t, "2025-11-25", `{"roots":{}}`, 10)
	_, _ = c.asked(t, `"a":{"method":"roots/list"}`)
	if _, err := c.Wait(time.Now().Add(time.Millisecond)); err != proxy.ErrNotYet {
		t.Errorf("%v", err)
	}
	go c.ex.Cancel(proxy.ErrCancelled)
	if _, err := c.Wait(time.Time{}); err != proxy.ErrCancelled || c.ex.Session.OpenQuestions() != 0 {
		t.Errorf("%v", err)
	}
}
