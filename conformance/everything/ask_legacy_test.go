package everything

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// text returns the text of a tool's result.
func (r response) text(t *testing.T) (text string, isError bool) {
	t.Helper()
	var a asked
	if r.Error != nil {
		t.Fatalf("error %d: %s", r.Error.Code, r.Error.Message)
	}
	if err := json.Unmarshal(r.Result, &a); err != nil {
		t.Fatal(err)
	}
	return a.text(), a.IsError
}

func TestAskLegacy(t *testing.T) {
	s := newServer(t, Options{})
	f := func(version, tool, args, method, params, result, want string) {
		t.Helper()
		c := newLegacyClient(t, s, version, "")
		_, r := c.begin("tools/call", `"name":"`+tool+`","arguments":`+args)
		m := c.must(r)
		if m.Kind != wire.Request || string(m.Text(m.Method)) != method {
			t.Fatalf("%s, %s: %s", version, tool, m.Raw)
		}
		same(t, version+", "+tool, m.Of(m.Params), params)
		c.answers(m, result)
		if got, isError := c.end(r).text(t); got != want || isError {
			t.Errorf("%s, %s: %s; want %s", version, tool, got, want)
		}
		if n := c.sess.OpenQuestions(); n != 0 {
			t.Errorf("%s, %s: %d answers are awaited still", version, tool, n)
		}
	}
	const form = `"message":"x","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`
	f(rev2511, "ask_user", `{"question":"x"}`, "elicitation/create", `{"mode":"form",`+form+`}`, saysAda, "accept Ada")
	f(rev0618, "ask_user", `{"question":"x"}`, "elicitation/create", `{`+form+`}`, saysAda, "accept Ada")
	f(rev0618, "ask_user", `{"question":"x"}`, "elicitation/create", `{`+form+`}`, `{"action":"cancel"}`, "cancel -")
	const messages = `{"messages":[{"role":"user","content":{"type":"text","text":"x"}}],"maxTokens":100}`
	f(rev2511, "ask_model", `{"prompt":"x"}`, "sampling/createMessage", messages, saysPoem, "a poem")
	f(rev2024, "ask_model", `{"prompt":"x"}`, "sampling/createMessage", messages, saysPoem, "a poem")
	f(rev2024, "ask_roots", `{}`, "roots/list", `{}`, hasRoots, "file:///a, file:///b")
}

// The questions of a round go out together, before any answer, and may be answered in any order.
func TestAskLegacyAtOnce(t *testing.T) {
	s := newServer(t, Options{})
	c := newLegacyClient(t, s, rev2511, "")
	_, r := c.begin("tools/call", `"name":"test_input_required_result_multiple_inputs"`)
	results := map[string]string{"elicitation/create": saysAda, "sampling/createMessage": saysPoem, "roots/list": hasRoots}
	var all []*wire.Message
	ids := map[string]bool{}
	for range 3 {
		m := c.must(r)
		all = append(all, m)
		ids[string(m.Of(m.ID))] = true
	}
	if len(ids) != 3 {
		t.Errorf("ids %v", ids)
	}
	for i := range all {
		m := all[len(all)-1-i]
		c.answers(m, results[string(m.Text(m.Method))])
	}
	if got, _ := c.end(r).text(t); got != "a poem (Ada, roots: file:///a, file:///b)" {
		t.Error(got)
	}
}

func TestAskLegacyInRounds(t *testing.T) {
	s := newServer(t, Options{})
	c := newLegacyClient(t, s, rev2511, "")
	_, r := c.begin("tools/call", `"name":"ask_rounds"`)
	first := c.must(r)
	if _, err := r.Next(time.Now().Add(20 * time.Millisecond)); !errors.Is(err, proxy.ErrNotYet) {
		t.Errorf("the second round came before the first was answered: %v", err)
	}
	c.answers(first, saysAda)
	c.answers(c.must(r), saysPoem)
	if got, _ := c.end(r).text(t); got != "Ada: a poem" {
		t.Error(got)
	}
}

var aUUID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// Of the legacy revisions only 2025-11-25 has URLs. Each has an id, and a client that accepted gets a notification of the completion before
// the result.
func TestAskForURL(t *testing.T) {
	s := newServer(t, Options{})
	f := func(action string, told bool) {
		t.Helper()
		c := newLegacyClient(t, s, rev2511, "")
		_, r := c.begin("tools/call", `"name":"ask_url"`)
		m := c.must(r)
		var p map[string]string
		if err := json.Unmarshal(m.Of(m.Params), &p); err != nil || p["mode"] != "url" || p["url"] == "" || p["message"] == "" || !aUUID.MatchString(p["elicitationId"]) {
			t.Fatalf("%s, %v", m.Raw, err)
		}
		c.answers(m, `{"action":"`+action+`"}`)
		if told {
			done := c.must(r)
			same(t, "complete", done.Raw, `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"`+p["elicitationId"]+`"}}`)
		}
		if got, _ := c.end(r).text(t); got != action {
			t.Error(got)
		}
	}
	f("accept", true)
	f("decline", false)
	f("cancel", false)
}

func TestAskLegacyUndeclared(t *testing.T) {
	s := newServer(t, Options{})
	f := func(version, caps, tool, words string) {
		t.Helper()
		c := newLegacyClient(t, s, version, caps)
		resp := c.call("tools/call", `"name":"`+tool+`","arguments":{"question":"","prompt":""}`)
		if got, isError := resp.text(t); !isError || !strings.Contains(got, words) {
			t.Errorf("%s with %s, %s: %s", version, caps, tool, got)
		}
	}
	f(rev2511, `{}`, "ask_user", "does not declare elicitation.form")
	f(rev2511, `{"elicitation":{"url":{}}}`, "ask_user", "does not declare elicitation.form")
	f(rev2511, `{"elicitation":{}}`, "ask_url", "does not declare elicitation.url")
	f(rev0618, `{"elicitation":{"url":{}}}`, "ask_url", "does not declare elicitation.url")
	f(rev0326, `{"elicitation":{}}`, "ask_user", "does not declare elicitation.form")
	f(rev0618, `{}`, "ask_at_once", "elicitation.form, sampling")
	f(rev0618, `{}`, "ask_roots", "roots")
	f(rev0618, ``, "test_elicitation_sep1330_enums", "2025-11-25")
}

// An error or an invalid answer ends the call, and the other questions are withdrawn.
func TestAskLegacyRefused(t *testing.T) {
	s := newServer(t, Options{})
	f := func(answer, words string) {
		t.Helper()
		c := newLegacyClient(t, s, rev2511, "")
		_, r := c.begin("tools/call", `"name":"ask_at_once"`)
		first, second := c.must(r), c.must(r)
		c.tell(`{"jsonrpc":"2.0","id":` + string(first.Of(first.ID)) + `,` + answer + `}`)
		gone := c.must(r)
		if !gone.Is("notifications/cancelled") || string(gone.Of(gone.RequestID)) != string(second.Of(second.ID)) {
			t.Errorf("%s: %s", answer, gone.Raw)
		}
		if got, isError := c.end(r).text(t); !isError || !strings.Contains(got, words) {
			t.Errorf("%s: %s", answer, got)
		}
		c.answers(second, saysPoem) // too late, and no harm
		if n := c.sess.OpenQuestions(); n != 0 {
			t.Errorf("%d answers are awaited still", n)
		}
	}
	f(`"error":{"code":-1,"message":"User rejected"}`, "error -1: User rejected")
	f(`"result":{}`, "elicitation/create")
	f(`"result":5`, "elicitation/create")
}

// A failed prompt is an error, since its results cannot report a failure.
func TestPromptAsksLegacy(t *testing.T) {
	s := newServer(t, Options{})
	const get = `"name":"test_input_required_result_prompt"`
	c := newLegacyClient(t, s, rev2511, "")
	_, r := c.begin("prompts/get", get)
	c.answers(c.must(r), `{"action":"accept","content":{"context":"c"}}`)
	resp := c.end(r)
	same(t, "prompt", resp.Result, `{"description":"Asks the user for its context","messages":[{"role":"user","content":{"type":"text","text":"Context: c"}}]}`)

	if resp = newLegacyClient(t, s, rev2511, `{}`).call("prompts/get", get); resp.Error == nil || resp.Error.Code != -32603 {
		t.Errorf("undeclared: %s, %v", resp.Result, resp.Error)
	}
}

// A call that ends while its questions are open withdraws them.
func TestAskLegacyStopped(t *testing.T) {
	f := func(what string, stop func(*legacyClient, *proxy.Exchange, proxy.Replies), told bool) {
		t.Helper()
		s := New(Options{})
		defer func() { _ = s.Close() }()
		c := newLegacyClient(t, s, rev2511, "")
		ex, r := c.begin("tools/call", `"name":"ask_at_once"`)
		first, second := c.must(r), c.must(r)
		stop(c, ex, r)
		_ = r.Close()
		all := strings.Join(c.takePushed(), "\n")
		for _, m := range []*wire.Message{first, second} {
			if strings.Contains(all, `"requestId":`+string(m.Of(m.ID))+`,`) != told {
				t.Errorf("%s: withdrawn %v: %s", what, !told, all)
			}
		}
		if n := c.sess.OpenQuestions(); n != 0 {
			t.Errorf("%s: %d answers are awaited still", what, n)
		}
	}
	f("cancelled", func(c *legacyClient, _ *proxy.Exchange, _ proxy.Replies) {
		c.tell(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q1"}}`)
	}, true)
	f("closed", func(*legacyClient, *proxy.Exchange, proxy.Replies) {}, true)
	f("server closed", func(c *legacyClient, _ *proxy.Exchange, r proxy.Replies) {
		_ = c.s.Close()
		if _, err := c.next(r); proxy.AsError(err).Name != proxy.ShuttingDown.Name {
			t.Errorf("Next after the server's Close: %v", err)
		}
	}, true)
	f("session over", func(c *legacyClient, _ *proxy.Exchange, _ proxy.Replies) { c.sess.End(proxy.Closed) }, false)
}

// A client with too many open questions gets no more.
func TestAskLegacyTooMuch(t *testing.T) {
	s := newServer(t, Options{})
	c := newLegacyClient(t, s, rev2511, "")
	n := 0
	for ; n < 10_000; n++ {
		if _, err := c.sess.Expect(func(*wire.Message) {}); err != nil {
			break
		}
	}
	if got, isError := c.call("tools/call", `"name":"ask_roots"`).text(t); !isError || !strings.Contains(got, "too many") {
		t.Errorf("after %d questions: %s", n, got)
	}
}

func TestAskWithoutSession(t *testing.T) {
	s := newServer(t, Options{})
	ex := exchange(t, "tools/call", `"name":"ask_roots"`, "")
	ex.Client = proxy.Client{Era: proxy.Legacy, Version: rev2511, Caps: []byte(allCaps)}
	_, resp := do(t, s, ex)
	if got, isError := resp.text(t); !isError {
		t.Error(got)
	}
}

// Concurrent calls that ask get their own answers.
func TestAskLegacyParallel(t *testing.T) {
	s := newServer(t, Options{})
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			c := newLegacyClient(t, s, rev2511, "")
			var calls sync.WaitGroup
			for i := range 8 {
				m, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"ask_user","arguments":{"question":"q%d.%d"}}}`, i, n, i))
				if err != nil {
					t.Error(err)
					return
				}
				calls.Go(func() { askOne(t, c, m, fmt.Sprintf("q%d.%d", n, i)) })
			}
			calls.Wait()
		})
	}
	wg.Wait()
}

func askOne(t *testing.T, c *legacyClient, m wire.Message, word string) {
	ex := &proxy.Exchange{Msg: m, Session: c.sess, Client: c.sess.Client()}
	r, err := c.s.Do(ex)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = r.Close() }()
	q, err := c.next(r)
	if err != nil || !strings.Contains(string(q.Raw), word) {
		t.Errorf("%s: %s, %v", word, q.Raw, err)
		return
	}
	c.answers(q, `{"action":"accept","content":{"name":"`+word+`"}}`)
	if a, err := c.next(r); err != nil || !strings.Contains(string(a.Raw), "accept "+word) {
		t.Errorf("%s: %s, %v", word, a.Raw, err)
	}
}
