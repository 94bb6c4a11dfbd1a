package era

import (
	"dragoman/adapters/era/input"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Entries of error -32042 that name a page become questions, within the bounds on open questions and rounds; otherwise the error
// remains.
func TestVisit(t *testing.T) {
	u := newPooled(t, &fakeServer{}, 10, time.Hour)
	f := func(caps string, visits int, elicitations, want string) {
		t.Helper()
		c := &downCall{u: u, ex: modernExchange(t, "p", `{"name":"n"}`, caps), method: "tools/call", visits: visits}
		m := c.visit(scan(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"open","data":{"elicitations":`+elicitations+`}}}`))
		switch {
		case m == nil && want != "":
			t.Errorf("%s: nothing", elicitations)
		case m != nil && (want == "" || !strings.HasPrefix(string(m.Raw), `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{`+want+`},"requestState":"v1.`)):
			t.Errorf("%s\n  %s\nwant\n  %s", elicitations, m.Raw, want)
		}
	}
	const url = `{"elicitation":{"url":{}}}`
	f(url, 0, `[{"mode":"url","url":"x:1","message":"m","elicitationId":"e","_meta":{},"task":{}}]`, `"u1-1":{"method":"elicitation/create","params":{"mode":"url","url":"x:1","message":"m"}}`)
	f(url, 4, `[{"mode":"url","url":"x:1"},5]`, `"u5-1":{"method":"elicitation/create","params":{"mode":"url","url":"x:1"}}`)
	f(url, 9, `[{"mode":"url","url":"x:1"}]`, `"u10-1":{"method":"elicitation/create","params":{"mode":"url","url":"x:1"}}`)
	f(url, 0, `[]`, "")
	f(url, 0, `{}`, "")
	f(url, 0, `[5,"x"]`, "")
	f(url, 0, `[{"mode":"url","url":5}]`, "")
	f(url, 0, `[{"mode":"url"}]`, "")
	f(url, 0, `[{"url":"x:1"}]`, `"u1-1":{"method":"elicitation/create","params":{"url":"x:1","mode":"url"}}`) // the error is of that mode only
	f(`{"elicitation":{}}`, 0, `[{"mode":"url","url":"x:1"}]`, "")
	f(`{}`, 0, `[{"mode":"url","url":"x:1"}]`, "")
	c := &downCall{u: u, ex: modernExchange(t, "p", `{"name":"n"}`, url), method: "tools/call", visits: 10}
	m := c.visit(scan(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"open","data":{"elicitations":[{"mode":"url","url":"x:1"}]}}}`))
	if m == nil || !strings.Contains(string(m.Raw), `"code":-32603`) || !strings.Contains(string(m.Raw), "questions.rounds") {
		t.Errorf("after 10 rounds: %v", m)
	}
	var many, want []string
	for i := range input.MaxOpen + 10 {
		many = append(many, fmt.Sprintf(`{"mode":"url","url":"x:%d"}`, i))
		if i < input.MaxOpen {
			want = append(want, fmt.Sprintf(`"u1-%d":{"method":"elicitation/create","params":{"mode":"url","url":"x:%d"}}`, i+1, i))
		}
	}
	f(url, 0, "["+strings.Join(many, ",")+"]", strings.Join(want, ","))
}
