package merge

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/lists"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

const (
	modernTasks = `{"tools":{},"resources":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	legacyTasks = `{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}`
	runsTasks   = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	times       = `"createdAt":"2026-07-28T00:00:00Z","lastUpdatedAt":"2026-07-28T00:00:00Z"`
)

// modernTasker is a modern server whose tool long runs as task t/1.
func modernTasker() *script {
	s := newScript(true, modernTasks)
	s.lists(`{"name":"long","inputSchema":{"type":"object"}}`, `{"uri":"demo://x","name":"x"}`, "")
	s.set("tools/call", `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"task","taskId":"t/1","status":"working",`+times+`,"ttlMs":null,"pollIntervalMs":50}}`)
	s.set("tasks/get", `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","taskId":$TASK,"status":"completed",`+times+`,"ttlMs":null,"result":{"content":[{"type":"resource_link","uri":"demo://x","name":"x"}]}}}`)
	for _, method := range []string{"tasks/update", "tasks/cancel"} {
		s.set(method, `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete"}}`)
	}
	return s
}

// The task of a modern member is known to its client by a handle that nobody else can use.
func TestTasksOfModernMembers(t *testing.T) {
	servers := []*script{modernTasker(), modernTasker()}
	r := scriptRig(t, Options{}, servers...)
	if got := r.as("ann", runsTasks, "server/discover", ""); got.at("capabilities", "extensions", "io.modelcontextprotocol/tasks") != "{}" {
		t.Errorf("server/discover: %v", got)
	}
	if got := r.newPeer(false); len(r.viewOf(&lists.Client{}).Offer("2025-11-25", "extensions", "io.modelcontextprotocol/tasks")) != 0 || got == nil {
		t.Error("legacy clients are offered the extension")
	}
	owner := r.catalogue.Snapshot().Owner("demo://x")
	var handles []string
	for i, name := range []string{"a", "b"} {
		got := r.as("ann", runsTasks, "tools/call", `"name":"`+name+`.long","arguments":{}`)
		has(t, servers[i].hears(t, "tools/call"), `"name":"long"`)
		handle := got.at("taskId")
		if got.at("resultType") != "task" || !strings.HasPrefix(handle, "v1.") {
			t.Fatalf("%s: %v", name, got)
		}
		handles = append(handles, handle)
		for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
			got := r.as("ann", runsTasks, method, `"taskId":"`+handle+`"`)
			has(t, servers[i].hears(t, method), `"taskId":"t/1"`)
			if strings.Contains(got.raw, "t/1") || got.err != nil || method == "tasks/get" && got.at("taskId") != handle {
				t.Errorf("%s at %s: %v", method, name, got)
			}
			if method == "tasks/get" && strings.Contains(got.raw, `"uri":"dragoman+`+name+`://demo///x"`) == (owner == name) {
				t.Errorf("the link in the result of %s: %v", name, got)
			}
		}
	}
	if handles[0] == handles[1] {
		t.Error("two tasks have one handle")
	}
	changed := []byte(handles[0])
	changed[20]++
	for _, test := range []struct{ who, caps, method, id, want string }{
		{"bob", runsTasks, "tasks/get", handles[0], "params.taskId is unknown"},
		{"ann", runsTasks, "tasks/cancel", string(changed), "params.taskId is unknown"},
		{"ann", runsTasks, "tasks/get", "t/1", "params.taskId is unknown"},
		{"ann", runsTasks, "tasks/get", "a/t/1", "params.taskId is unknown"},
		{"ann", `{"tasks":{}}`, "tasks/get", handles[0], "missing_capability"},
		{"ann", runsTasks, "tasks/result", handles[0], "method tasks/result is not offered"},
		{"ann", runsTasks, "tasks/list", handles[0], "method tasks/list is not offered"},
	} {
		got := r.as(test.who, test.caps, test.method, `"taskId":"`+test.id+`"`)
		if text := fmt.Sprintf("%v %s", got.err, nameOf(got.err)); got.err == nil || !strings.Contains(text, test.want) {
			t.Errorf("%v: %v", test, got)
		}
	}
	quiet(t, servers...)
}

func nameOf(err error) string {
	if err == nil {
		return ""
	}
	return proxy.AsError(err).Name
}

// A listen tells of the tasks of all members, by the client's handles.
func TestListensForTasks(t *testing.T) {
	servers := []*script{modernTasker(), modernTasker()}
	status := `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"%s","status":"%s",` + times + `,"ttlMs":null,"result":{"content":[{"type":"resource_link","uri":"demo://x","name":"x"}]},"_meta":{"io.modelcontextprotocol/subscriptionId":$ID}}}`
	ack := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"taskIds":["t/1"]},"_meta":{"io.modelcontextprotocol/subscriptionId":$ID}}}`
	r := scriptRig(t, Options{}, servers...)
	var handles []string
	for i, name := range []string{"a", "b"} {
		servers[i].set("subscriptions/listen", ack, fmt.Sprintf(status, "t/2", "working"), fmt.Sprintf(status, "t/1", "of "+name), "wait")
		handles = append(handles, r.as("ann", runsTasks, "tools/call", `"name":"`+name+`.long","arguments":{}`).at("taskId"))
		servers[i].hears(t, "tools/call")
	}
	if got := r.as("ann", `{}`, "subscriptions/listen", `"notifications":{"taskIds":["`+handles[0]+`"]}`); nameOf(got.err) != "missing_capability" {
		t.Errorf("undeclared: %v", got)
	}
	ex := r.exchangeAs("ann", runsTasks, "subscriptions/listen", `"notifications":{"taskIds":["`+handles[1]+`","x","`+handles[0]+`"]}`)
	replies, err := r.Do(ex)
	if err != nil {
		t.Fatal(err)
	}
	defer replies.Close()
	defer ex.Cancel(proxy.ErrCancelled)
	next := nextIn(t, replies)
	sorted := slices.Sorted(slices.Values(handles))
	has(t, next(), `"notifications":{"taskIds":["`+sorted[0]+`","`+sorted[1]+`"]}`)
	owner := r.catalogue.Snapshot().Owner("demo://x")
	seen := map[string]bool{}
	for range handles {
		got := next()
		i := 0
		if strings.Contains(got, `"status":"of b"`) {
			i = 1
		}
		name := string(rune('a' + i))
		seen[name] = true
		has(t, got, `"taskId":"`+handles[i]+`"`, `"status":"of `+name+`"`, `"io.modelcontextprotocol/subscriptionId":7`)
		if strings.Contains(got, `"dragoman+`+name+`://demo///x"`) == (owner == name) {
			t.Errorf("the link in %s", got)
		}
	}
	if len(seen) != 2 {
		t.Errorf("told of %v", seen)
	}
	has(t, servers[0].hears(t, "subscriptions/listen"), `"notifications":{"taskIds":["t/1"]}`, `"io.modelcontextprotocol/tasks":{}`)
}

// legacyTasker is a legacy server whose tool long runs as task t/1.
func legacyTasker() *script {
	s := newScript(false, legacyTasks)
	s.lists(`{"name":"long","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`, "", "")
	task := `"taskId":"t/1","status":"working",` + times + `,"ttl":null,"pollInterval":50`
	s.set("tools/call", `{"jsonrpc":"2.0","id":$ID,"result":{"task":{`+task+`},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t/1"}}}}`)
	for _, method := range []string{"tasks/get", "tasks/cancel"} {
		s.set(method, `{"jsonrpc":"2.0","id":$ID,"result":{`+task+`}}`)
	}
	related := `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t/1"}}`
	s.set("tasks/result", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1,`+related+`}}`,
		`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}},`+related+`}}`, "wait",
		`{"jsonrpc":"2.0","id":$ID,"result":{"content":[],`+related+`}}`)
	return s
}

// The task of a legacy member is known to its client by an id that names the member, wherever an id stands.
func TestTasksOfLegacyMembers(t *testing.T) {
	servers := []*script{legacyTasker(), legacyTasker()}
	r := scriptRig(t, Options{}, servers...)
	p := r.newPeer(true)
	older := &peer{r: r, session: proxy.NewSession("old", "streamable-http", "", proxy.Caller{}, time.Now()), pushed: make(chan string, 1)}
	defer older.session.End(proxy.Closed)
	if got := older.call("initialize", `"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}`); got.at("capabilities", "tasks") != "" {
		t.Errorf("a client of a revision without tasks: %v", got)
	}
	newer := &peer{r: r, session: proxy.NewSession("new", "streamable-http", "", proxy.Caller{}, time.Now()), pushed: make(chan string, 1)}
	defer newer.session.End(proxy.Closed)
	if got := newer.call("initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}`); got.at("capabilities", "tasks") != `{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}` {
		t.Errorf("initialize: %v", got)
	}
	if got := r.call("server/discover", ""); got.at("capabilities", "tasks") != "" {
		t.Errorf("modern clients are offered the tasks of 2025-11-25: %v", got)
	}
	for i, name := range []string{"a", "b"} {
		id, s := name+"/t/1", servers[i]
		got := p.call("tools/call", `"name":"`+name+`.long","arguments":{},"task":{"ttl":1000}`)
		has(t, s.hears(t, "tools/call"), `"name":"long"`, `"task":{"ttl":1000}`)
		if got.at("task", "taskId") != id || got.at("_meta", "io.modelcontextprotocol/related-task", "taskId") != id {
			t.Fatalf("%s: %v", name, got)
		}
		for _, method := range []string{"tasks/get", "tasks/cancel"} {
			got := p.call(method, `"taskId":"`+id+`"`)
			has(t, s.hears(t, method), `"taskId":"t/1"`)
			if got.at("taskId") != id {
				t.Errorf("%s at %s: %v", method, name, got)
			}
		}
		p.resultOf(t, s, id)
		s.say(t, `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t/1","status":"completed",`+times+`,"ttl":null}}`)
		has(t, <-p.pushed, `"notifications/tasks/status"`, `"taskId":"`+id+`"`)
	}
	for id, want := range map[string]string{"t/1": "params.taskId is unknown", "": "params.taskId is unknown", "c/t/1": "params.taskId is unknown"} {
		if got := p.call("tasks/get", `"taskId":"`+id+`"`); got.err == nil || !strings.Contains(got.err.Error(), want) {
			t.Errorf("%q: %v", id, got)
		}
	}
	if got := p.call("tasks/update", `"taskId":"a/t/1"`); nameOf(got.err) != "method_not_found" {
		t.Errorf("tasks/update: %v", got)
	}
	quiet(t, servers...)
}

// resultOf asks for the result of a task, which asks a question.
func (p *peer) resultOf(t *testing.T, s *script, id string) {
	t.Helper()
	replies, err := p.begin("tasks/result", `"taskId":"`+id+`","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"`+id+`"},"progressToken":"p"}`)
	if err != nil {
		t.Fatal(err)
	}
	defer replies.Close()
	has(t, s.hears(t, "tasks/result"), `"taskId":"t/1","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t/1"}`)
	for _, method := range []string{"notifications/progress", "elicitation/create", ""} {
		m, err := replies.Next(time.Now().Add(10 * time.Second))
		if err != nil {
			t.Fatal(err)
		}
		raw := string(m.Append(nil))
		has(t, raw, `"io.modelcontextprotocol/related-task":{"taskId":"`+id+`"}`)
		if string(m.Text(m.Method)) != method {
			t.Fatalf("received %s, want %q", raw, method)
		}
		if m.Kind == wire.Request {
			asked, _ := wire.Scan([]byte(raw))
			p.notify(`{"jsonrpc":"2.0","id":` + string(asked.Of(asked.ID)) + `,"result":{"action":"accept","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + id + `"}}}}`)
			has(t, s.hears(t, ""), `"id":"q"`, `"io.modelcontextprotocol/related-task":{"taskId":"t/1"}`)
		}
	}
}

// tasks/list has the tasks of all members that the client uses, in pages, and says which could not be asked.
func TestListsOfTasks(t *testing.T) {
	page := func(ids, cursor string) string {
		return `{"jsonrpc":"2.0","id":$ID,"result":{"tasks":[` + ids + `]` + cursor + `}}`
	}
	servers := []*script{legacyTasker(), legacyTasker(), newScript(false, `{"tools":{}}`), legacyTasker()}
	r := scriptRig(t, Options{}, servers...)
	p := r.newPeer(false)
	if got := p.call("tasks/list", ""); got.at() != `{"tasks":[]}` {
		t.Errorf("before any use: %v", got)
	}
	for i, name := range []string{"a", "b", "c"} {
		p.call("tools/call", `"name":"`+name+`.long","arguments":{}`)
		servers[i].hears(t, "tools/call")
	}
	servers[0].set("tasks/list", page(`{"taskId":"t/1"},{"taskId":"t/2"}`, `,"nextCursor":"more"`))
	servers[1].set("tasks/list", page(`{"taskId":"t/1"}`, ""))
	got := p.call("tasks/list", "")
	if ids := got.keysOf("tasks", "taskId"); !slices.Equal(ids, []string{"a/t/1", "a/t/2", "b/t/1"}) || got.at("_meta") != "" {
		t.Errorf("the first page: %v", got)
	}
	servers[0].hears(t, "tasks/list")
	servers[1].hears(t, "tasks/list")
	cursor := got.at("nextCursor")
	servers[0].set("tasks/list", page(`{"taskId":"t/3"}`, ""))
	got = p.call("tasks/list", `"cursor":"`+cursor+`"`)
	if ids := got.keysOf("tasks", "taskId"); !slices.Equal(ids, []string{"a/t/3"}) || got.at("nextCursor") != "" {
		t.Errorf("the second page: %v", got)
	}
	has(t, servers[0].hears(t, "tasks/list"), `"cursor":"more"`)
	other := r.newPeer(false)
	for who, params := range map[*peer]string{other: `"cursor":"` + cursor + `"`, p: `"cursor":"more"`} {
		if got := who.call("tasks/list", params); got.err == nil || !strings.Contains(got.err.Error(), "params.cursor is none of this list") {
			t.Errorf("a cursor of others: %v", got)
		}
	}
	quiet(t, servers...)
	servers[0].set("tasks/list", `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32603,"message":"no"}}`)
	got = p.call("tasks/list", "")
	if ids := got.keysOf("tasks", "taskId"); !slices.Equal(ids, []string{"b/t/1"}) || got.at("_meta", "io.dragoman/servers") != `[{"name":"a","list":"left out"}]` {
		t.Errorf("without a: %v", got)
	}
	r.SetStrict(true)
	if got := p.call("tasks/list", ""); got.err == nil || !strings.Contains(got.err.Error(), "the tasks of these servers cannot be listed: a") {
		t.Errorf("strict: %v", got)
	}
	lone := newScript(false, `{"tools":{}}`)
	none := scriptRig(t, Options{}, lone)
	none.newPeer(false).call("tools/call", `"name":"a.long","arguments":{},"task":{}`)
	has(t, lone.hears(t, "tools/call"), `"task":{}`) // nobody has offered anything, and the server passes over it
	if got := none.newPeer(false).call("tasks/list", ""); nameOf(got.err) != "method_not_found" {
		t.Errorf("where nobody has tasks: %v", got)
	}
}

// Tasks of members of the other era are driven there: the client sees a call.
func TestTasksOfTheOtherEra(t *testing.T) {
	legacy, modern := legacyTasker(), modernTasker()
	legacy.set("tasks/result", `{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t/1"}}}}`)
	r := scriptRig(t, Options{}, legacy, modern)
	got := r.as("ann", runsTasks, "tools/call", `"name":"a.long","arguments":{}`)
	if got.at("content") != "[]" || got.at("resultType") != "complete" || strings.Contains(got.raw, "t/1") {
		t.Errorf("a modern client at a legacy member: %v", got)
	}
	has(t, legacy.hears(t, "tools/call"), `"task":{}`)
	has(t, legacy.hears(t, "tasks/result"), `"taskId":"t/1"`)
	p := r.newPeer(false)
	if got := p.call("tools/call", `"name":"b.long","arguments":{},"task":{}`); nameOf(got.err) != "method_not_found" || !strings.Contains(got.err.Error(), "b.long does not run as a task") {
		t.Errorf("a call as a task, which a offers and b does not: %v", got)
	}
	got = p.call("tools/call", `"name":"b.long","arguments":{}`)
	if !strings.Contains(got.at("content"), "demo://x") || strings.Contains(got.raw, "t/1") {
		t.Errorf("a legacy client at a modern member: %v", got)
	}
	modern.hears(t, "tools/call")
	has(t, modern.hears(t, "tasks/get"), `"taskId":"t/1"`)
	if got := p.call("tasks/list", ""); got.at() != `{"tasks":[]}` {
		t.Errorf("tasks/list: %v", got)
	}
	quiet(t, legacy, modern)
}

// A tool that runs only as a task of 2025-11-25 is shown to modern clients where that is driven.
func TestToolsThatRunOnlyAsTasks(t *testing.T) {
	for drives, want := range map[bool][]string{true: {"a.long", "b.long"}, false: {"b.long"}} {
		r := scriptRig(t, Options{}, legacyTasker(), modernTasker())
		members := slices.Clone(r.opt.Members)
		members[0].Drives = drives
		u := New(r.defaults(Options{Members: members}, map[string]catalogue.Kept{"a": {Transport: "HTTP"}, "b": {Transport: "HTTP"}}))
		if got := drain(u.Do(exchange(t, "tools/list", ""))); !slices.Equal(got.keysOf("tools", "name"), want) || strings.Contains(got.raw, "execution") {
			t.Errorf("driven %v: %v", drives, got)
		}
		_ = u.Close()
		if got := r.newPeer(false).call("tools/list", ""); !slices.Equal(got.keysOf("tools", "name"), []string{"a.long", "b.long"}) {
			t.Errorf("a legacy client: %v", got)
		}
	}
}

// Tasks that the client runs for its servers are known to the member that has begun them, and to no other.
func TestTasksOfTheClient(t *testing.T) {
	_, p, servers, sessions := talkers(t, true)
	ask := func(i int, method, params string) string {
		t.Helper()
		if err := sessions[i].Push([]byte(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `}}`)); err != nil {
			t.Fatal(err)
		}
		select {
		case asked := <-p.pushed:
			return asked
		case refused := <-servers[i].heard:
			return refused
		}
	}
	answer := func(i int, asked, result string) string {
		t.Helper()
		m, err := wire.Scan([]byte(asked))
		if err != nil || m.Kind != wire.Request {
			t.Fatalf("the client received %s", asked)
		}
		p.notify(`{"jsonrpc":"2.0","id":` + string(m.Of(m.ID)) + `,"result":` + result + `}`)
		return <-servers[i].heard
	}
	for i, id := range []string{"x", "y"} {
		asked := ask(i, "sampling/createMessage", `"task":{"ttl":1}`)
		has(t, answer(i, asked, `{"task":{"taskId":"`+id+`","status":"working"}}`), `"task":{"taskId":"`+id+`"`)
	}
	asked := ask(0, "sampling/createMessage", `"messages":[]`)
	answer(0, asked, `{"task":{"taskId":"z"}}`) // it has not asked for a task
	for i, own := range []string{"x", "y"} {
		for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
			for _, id := range []string{"x", "y", "z", "a/x"} {
				got := ask(i, method, `"taskId":"`+id+`","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"`+id+`"}}`)
				if id != own {
					has(t, got, `"id":1,"error":{"code":-32602`)
					continue
				}
				has(t, got, `"method":"`+method+`"`, `"params":{"taskId":"`+id+`","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"`+id+`"}}}`)
				has(t, answer(i, got, `{"taskId":"`+id+`"}`), `"result":{"taskId":"`+id+`"}`)
			}
		}
		list := ask(i, "tasks/list", "")
		has(t, answer(i, list, `{"tasks":[{"taskId":"x"},{"taskId":"y"},{"taskId":"z"}],"nextCursor":"c"}`), `"result":{"tasks":[{"taskId":"`+own+`"}],"nextCursor":"c"}`)
		p.notify(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"` + own + `","status":"completed"}}`)
		has(t, <-servers[i].heard, `"notifications/tasks/status"`, `"taskId":"`+own+`"`)
	}
	p.notify(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"z","status":"completed"}}`)
	for i := range servers {
		if n := len(servers[i].heard); n > 0 {
			t.Errorf("server %d has heard %s", i, <-servers[i].heard)
		}
	}
}
