package handles

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"dragoman/adapters/era/seal"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

func scan(t *testing.T, raw string) *wire.Message {
	t.Helper()
	m, err := wire.Scan([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return &m
}

func sealer(t *testing.T) *seal.Sealer {
	t.Helper()
	s, err := seal.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const related = `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}`

// Ids of tasks are found wherever one stands, and nowhere else.
func TestTaskPlaces(t *testing.T) {
	ask := func(method, more string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + more + `}}`
	}
	result := func(members string) string { return `{"jsonrpc":"2.0","id":1,"result":{` + members + `}}` }
	for _, test := range []struct{ asked, message, want string }{
		{"", ask("notifications/tasks/status", `"taskId":"u"`), ""},
		{"", `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t"}}`, "t"},
		{"", `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"t",` + related + `}}`, "t t"},
		{"", `{"jsonrpc":"2.0","method":"notifications/x","params":{"taskId":"u"}}`, ""},
		{"", ask("elicitation/create", `"taskId":"u",`+related), "t"},
		{"", ask("elicitation/create", `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":7}}`), ""},
		{"", result(`"taskId":"u",` + related), "t"},
		{ask("tools/call", ""), result(`"task":{"taskId":"u"},"taskId":"u","tasks":[{"taskId":"u"}]`), ""},
		{ask("tools/call", `"task":{}`), result(`"task":{"taskId":"t"},"taskId":"u"`), "t"},
		{ask("tools/call", `"task":{}`), result(`"task":{"taskId":null}`), ""},
		{ask("tools/call", ""), result(`"resultType":"task","taskId":"t"`), "t"},
		{ask("tools/call", ""), result(`"resultType":"tasks","taskId":"u"`), ""},
		{ask("tasks/get", ""), result(`"taskId":"t","result":{"taskId":"u"}`), "t"},
		{ask("tasks/list", ""), result(`"tasks":[{"taskId":"t"},{"taskId":7},{"taskId":"t"}]`), "t t"},
		{ask("tasks/get", ""), `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"u","data":{"taskId":"u"}}}`, ""},
	} {
		m := scan(t, test.message)
		var asked *wire.Message
		if test.asked != "" {
			asked = scan(t, test.asked)
		}
		var found []string
		for _, at := range TaskPlaces(nil, m, asked) {
			found = append(found, string(at.Text(m.Raw)))
		}
		if got := strings.Join(found, " "); got != test.want {
			t.Errorf("%s after %s: %q, want %q", test.message, test.asked, got, test.want)
		}
		PublicTasks(m, asked, func(own string) string { return "public " + own })
		if got := string(m.Append(nil)); strings.Count(got, `"taskId":"public t"`) != len(found) || strings.Contains(got, "public u") || strings.Contains(got, `"taskId":"t"`) {
			t.Errorf("made %s", got)
		}
	}
}

func TestOwnTask(t *testing.T) {
	for id, want := range map[string]string{"a/t": "t", "a/": "", "a/b/c": "b/c", "b/t": "b/t", "t": "t", "a": "a"} {
		m := scan(t, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"`+id+`"}}}}`)
		OwnTask(m, "a")
		if got := string(m.Append(nil)); !strings.Contains(got, `{"taskId":"`+want+`"}`) {
			t.Errorf("%q: %s, want %q", id, got, want)
		}
	}
	m := scan(t, `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`)
	if OwnTask(m, ""); len(m.Edits) != 0 {
		t.Errorf("edited %s", m.Append(nil))
	}
}

// A handle opens for its caller and with its seal alone, unchanged.
func TestHandles(t *testing.T) {
	with, ann, bob := sealer(t), &proxy.Caller{Principal: "ann"}, &proxy.Caller{Principal: "bob"}
	for _, own := range []string{"t", "", "t\x00/u", strings.Repeat("ü", 1000)} {
		handle := SealTask(with, ann, "my_server", own)
		if server, got, ok := OpenTask(with, ann, handle); !ok || server != "my_server" || got != own {
			t.Errorf("%q is %q of %q, %v", own, got, server, ok)
		}
		if strings.ContainsFunc(handle, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Errorf("%q is no header value", handle)
		}
		if _, _, ok := OpenTask(with, bob, handle); ok {
			t.Error("opens for another")
		}
		if _, _, ok := OpenTask(with, &proxy.Caller{Principal: "ann", Forwarded: &proxy.Forwarded{Sum: [16]byte{1}}}, handle); ok {
			t.Error("opens for another user of one credential")
		}
		if _, _, ok := OpenTask(sealer(t), ann, handle); ok {
			t.Error("opens with another seal")
		}
		for i := range handle {
			changed := []byte(handle)
			changed[i] ^= 1
			if _, _, ok := OpenTask(with, ann, string(changed)); ok {
				t.Fatalf("opens although byte %d was changed", i)
			}
		}
	}
	state := with.Seal(seal.Member, []byte("a\x00t"), taskBinding(ann), time.Now().Add(time.Hour))
	if _, _, ok := OpenTask(with, ann, state); ok {
		t.Error("another kind of seal opens as a task")
	}
}

func TestJoin(t *testing.T) {
	for _, own := range []string{"t", "", "a/b"} {
		if server, got, ok := Split(Join("a", own)); !ok || server != "a" || got != own {
			t.Errorf("%q is %q of %q", own, got, server)
		}
	}
	if _, _, ok := Split("t"); ok {
		t.Error("split without a server")
	}
}

func TestTaskFilter(t *testing.T) {
	if TaskFilter(nil) != nil {
		t.Error("a filter of nothing")
	}
	if got := string(wire.Object(TaskFilter([]string{"a", `"`}))); got != `{"taskIds":["a","\""]}` {
		t.Errorf("%s", got)
	}
}

func TestJoinTasks(t *testing.T) {
	asked := scan(t, `{"jsonrpc":"2.0","id":1,"method":"tasks/list"}`)
	page := func(server, result string) TaskPage {
		return TaskPage{Server: server, M: *scan(t, `{"jsonrpc":"2.0","id":1,`+result+`}`)}
	}
	tasks, next, late := JoinTasks(asked, []TaskPage{
		page("a", `"result":{"tasks":[{"taskId":"t","x":1},{"taskId":"u"}],"nextCursor":"1\""}`),
		page("b", `"error":{"code":1,"message":"no"}`), {Server: "c", Err: errors.New("gone")},
		page("d", `"result":{"tasks":[{"taskId":"t"}],"nextCursor":null}`), page("e", `"result":{"nextCursor":"2"}`),
	})
	if got := string(tasks); got != `[{"taskId":"a/t","x":1},{"taskId":"a/u"},{"taskId":"d/t"}]` {
		t.Errorf("tasks %s", got)
	}
	if got := fmt.Sprint(late); got != "[b c]" {
		t.Errorf("late %s", got)
	}
	cursors := Cursors(next)
	if len(cursors) != 2 || string(cursors["a"]) != `"1\""` || string(cursors["e"]) != `"2"` {
		t.Errorf("cursors %s", next)
	}
	if tasks, next, late := JoinTasks(asked, nil); string(tasks) != "[]" || next != nil || late != nil || len(Cursors(next)) != 0 {
		t.Errorf("of nobody: %s %s %v", tasks, next, late)
	}
}

func TestPublicElicitations(t *testing.T) {
	for message, want := range map[string]string{
		`"id":1,"method":"elicitation/create","params":{"elicitationId":"e"}`:                          `"a/e"`,
		`"method":"notifications/elicitation/complete","params":{"elicitationId":"e"}`:                 `"a/e"`,
		`"id":1,"method":"elicitation/create","params":{"elicitationId":7}`:                            `7`,
		`"id":1,"method":"other","params":{"elicitationId":"e"}`:                                       `"e"`,
		`"id":1,"error":{"code":-32042,"message":"m","data":{"elicitations":[{"elicitationId":"e"}]}}`: `"a/e"`,
		`"id":1,"error":{"code":-32041,"message":"m","data":{"elicitations":[{"elicitationId":"e"}]}}`: `"e"`,
		`"id":1,"result":{"elicitations":[{"elicitationId":"e"}]}`:                                     `"e"`,
	} {
		m := scan(t, `{"jsonrpc":"2.0",`+message+`}`)
		PublicElicitations(m, "a")
		if got := string(m.Append(nil)); !strings.Contains(got, `"elicitationId":`+want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// What a client runs for a server is that server's, up to a bound.
func TestHosted(t *testing.T) {
	var h Hosted
	begin := func(id, server string) {
		h.Answered(scan(t, `{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"`+id+`"}}}`), "sampling/createMessage", true, server)
	}
	begin("x", "a")
	begin("x", "b") // the client has given one id twice
	if got := h.Server("x"); got != "a" || h.Server("y") != "" {
		t.Errorf("x is of %q", got)
	}
	for i := range maxHosted {
		if h.Server("x") == "" {
			t.Fatalf("forgotten after %d more", i)
		}
		if i == maxHosted-1 {
			break
		}
		begin(fmt.Sprint(i), "b")
	}
	if begin("last", "b"); h.Server("x") != "" || h.Server("0") != "b" || h.Server("last") != "b" || len(h.of) != maxHosted {
		t.Errorf("%d tasks are remembered", len(h.of))
	}
	for _, test := range []struct {
		method, server string
		want           bool
	}{{"tasks/get", "b", true}, {"tasks/result", "b", true}, {"tasks/cancel", "b", true}, {"tasks/get", "a", false}, {"tasks/result", "a", false}, {"tasks/cancel", "a", false}, {"tasks/list", "a", true}} {
		if got := h.Allows(scan(t, `{"jsonrpc":"2.0","id":1,"method":"`+test.method+`","params":{"taskId":"0"}}`), test.server); got != test.want {
			t.Errorf("%s of %s is allowed: %v", test.method, test.server, got)
		}
	}
	if begin(strings.Repeat("i", maxHostedID), "a"); h.Server(strings.Repeat("i", maxHostedID)) != "a" {
		t.Error("a long id is not remembered")
	}
	if begin(strings.Repeat("i", maxHostedID+1), "a"); h.Server(strings.Repeat("i", maxHostedID+1)) != "" {
		t.Error("an id without a bound is remembered")
	}
	begin("0", "b")
	list := scan(t, `{"jsonrpc":"2.0","id":1,"result":{"tasks":[{"taskId":"0"},{"taskId":"x"}]}}`)
	if h.Answered(list, "tools/list", false, "b"); len(list.Edits) != 0 {
		t.Error("a list of something else is edited")
	}
	if h.Answered(list, "tasks/list", false, "b"); string(list.Append(nil)) != `{"jsonrpc":"2.0","id":1,"result":{"tasks":[{"taskId":"0"}]}}` {
		t.Errorf("listed %s", list.Append(nil))
	}
}

// Whatever a server sends stays a message.
func FuzzPublic(f *testing.F) {
	for _, raw := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"t","tasks":[{"taskId":"t"}],"task":{"taskId":"t"},` + related + `}}`,
		`{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"\u0000","taskId":"t",` + related + `}}`,
		`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"elicitationId":"e",` + related + `}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"m","data":{"elicitations":[{"elicitationId":"e"},7]}}}`,
	} {
		f.Add(raw, "tasks/list")
		f.Add(raw, "tools/call")
	}
	f.Fuzz(func(t *testing.T, raw, method string) {
		m, err := wire.Scan([]byte(raw))
		if err != nil {
			return
		}
		asked, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":` + string(wire.AppendText(nil, method)) + `,"params":{"task":{}}}`))
		if err != nil {
			return
		}
		kind := m.Kind
		PublicTasks(&m, &asked, func(own string) string { return Join("a", own) })
		PublicElicitations(&m, "a")
		if _, err := m.Settle(nil); err != nil || m.Kind != kind {
			t.Errorf("%s became %s: %v", raw, m.Raw, err)
		}
		back, h := m, Hosted{} // as an answer of the client
		OwnTask(&back, "a")
		h.Answered(&back, method, true, "a")
		if _, err := back.Settle(nil); err != nil {
			t.Errorf("%s became %s: %v", m.Raw, back.Raw, err)
		}
	})
}
