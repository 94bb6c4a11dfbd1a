package input

import (
	"fmt"
	"strings"
	"testing"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/adapters/era/work"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Entries of error -32042 that name a page become questions, within the bounds on open questions and rounds; otherwise the error
// remains.
func TestAskVisits(t *testing.T) {
	store, err := NewStore(Options{})
	if err != nil {
		t.Fatal(err)
	}
	x := NewCalls("up", false, store, work.New(nil))
	visit := func(caps string, rounds int, elicitations string) *wire.Message {
		ex := &proxy.Exchange{Msg: *fakeserver.Scan(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`), Client: proxy.Client{Caps: []byte(caps)}}
		return x.AskVisits(ex, fakeserver.Scan(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"open","data":{"elicitations":`+elicitations+`}}}`), rounds, nil)
	}
	f := func(caps string, rounds int, elicitations, want string) {
		t.Helper()
		m := visit(caps, rounds, elicitations)
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
	m := visit(url, 10, `[{"mode":"url","url":"x:1"}]`)
	if m == nil || !strings.Contains(string(m.Raw), `"code":-32603`) || !strings.Contains(string(m.Raw), "questions.rounds") {
		t.Errorf("after 10 rounds: %v", m)
	}
	var many, want []string
	for i := range MaxOpen + 10 {
		many = append(many, fmt.Sprintf(`{"mode":"url","url":"x:%d"}`, i))
		if i < MaxOpen {
			want = append(want, fmt.Sprintf(`"u1-%d":{"method":"elicitation/create","params":{"mode":"url","url":"x:%d"}}`, i+1, i))
		}
	}
	f(url, 0, "["+strings.Join(many, ",")+"]", strings.Join(want, ","))
}
