package definitions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// rig is a Guard of a server whose definitions the test sets.
type rig struct {
	t      *testing.T
	g      *Guard
	store  *store
	known  atomic.Pointer[catalogue.Server]
	waited atomic.Int64
	await  func() error
	notes  []string
	renews int
	reply  string // the result with which the server answers
	served int
}

// store is a store that can fail.
type store struct {
	catalogue.MemoryPins
	fails atomic.Bool
}

var errStore = errors.New("no store")

func (s *store) Pins(ctx context.Context, server string) ([]catalogue.Pin, error) {
	if s.fails.Load() {
		return nil, errStore
	}
	return s.MemoryPins.Pins(ctx, server)
}

func (s *store) PutPins(ctx context.Context, server string, pins []catalogue.Pin) error {
	if s.fails.Load() {
		return errStore
	}
	return s.MemoryPins.PutPins(ctx, server, pins)
}

func newRig(t *testing.T, holdFirst bool) *rig {
	r := &rig{t: t, store: &store{}, await: func() error { return nil }}
	r.open(holdFirst)
	return r
}

// open makes the Guard, as a restart does.
func (r *rig) open(holdFirst bool) {
	r.g = New(Options{Keeper: NewKeeper(r.store, time.Now), Server: "one", HoldFirst: holdFirst, Known: r.known.Load, Renew: func() { r.renews++ },
		Await: func(context.Context) error { r.waited.Add(1); return r.await() }, Note: func(msg string, err error) { r.notes = append(r.notes, fmt.Sprint(msg, ": ", err)) }})
}

// lists sets what the server lists to Dragoman, as JSON arrays of tools, prompts and templates, and its instructions.
func (r *rig) lists(tools, prompts, templates, text string) {
	r.t.Helper()
	s := &catalogue.Server{ID: "id", Name: "one", Description: catalogue.Description{Instructions: text}}
	for kind, raw := range map[catalogue.Kind]string{catalogue.Tools: tools, catalogue.Prompts: prompts, catalogue.Templates: templates, catalogue.Resources: `[{"uri":"note://listed"}]`} {
		l := &catalogue.List{}
		for _, item := range wire.Items([]byte(raw), wire.Whole([]byte(raw))) {
			key := wire.Get([]byte(raw), item, kind.Key())
			l.Items = append(l.Items, catalogue.Item{Key: string(key.Text([]byte(raw))), Raw: item.Of([]byte(raw))})
		}
		s.Lists[kind] = l
	}
	r.known.Store(s)
	r.g.Learn(r.t.Context())
}

func (r *rig) ask(who, method, params string) (string, error) {
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`))
	if err != nil {
		r.t.Fatal(err)
	}
	ex := &proxy.Exchange{Msg: m, Caller: proxy.Caller{Principal: who}}
	replies, err := r.g.Policy()(func(*proxy.Exchange) (proxy.Replies, error) {
		r.served++
		answer, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"result":` + r.reply + `}`))
		if err != nil {
			return nil, err
		}
		return proxy.Reply(answer), nil
	})(ex)
	if err != nil {
		if ex.RefusedBy != "definitions" && !proxy.IsFault(err, proxy.Unreachable) {
			r.t.Errorf("%s is refused by %q", method, ex.RefusedBy)
		}
		return "", err
	}
	answer, err := proxy.Response(replies, time.Time{})
	if err != nil {
		return "", err
	}
	return string(answer.Append(nil)), nil
}

// wants asks and expects that the request reaches the server, or is refused with a row of the error table and a text.
func (r *rig) wants(method, params, row, text string) {
	r.t.Helper()
	before := r.served
	r.reply = "{}"
	_, err := r.ask("a", method, params)
	switch {
	case row == "" && (err != nil || r.served == before):
		r.t.Errorf("%s %s: %v", method, params, err)
	case row != "" && (err == nil || proxy.AsError(err).Name != row || !strings.Contains(err.Error(), text) || r.served != before):
		r.t.Errorf("%s %s: %v, want %s", method, params, err, row)
	}
}

const (
	toolA, toolA2   = `{"name":"a","description":"A"}`, `{"name":"a","description":"A2"}`
	toolB           = `{"name":"b"}`
	promptP         = `{"name":"p"}`
	noteOf, noteOf2 = `{"uriTemplate":"note://{id}","name":"n"}`, `{"uriTemplate":"note://{id}","name":"m"}`
)

// Requests for what is held are refused before the server sees them, those for what is approved are served.
func TestPolicy(t *testing.T) {
	r := newRig(t, false)
	r.lists("["+toolA+","+toolB+"]", "["+promptP+"]", "["+noteOf+"]", "")
	for _, use := range []struct{ method, params string }{{"tools/call", `{"name":"a"}`}, {"tools/call", `{"name":"b"}`}, {"prompts/get", `{"name":"p"}`}, {"resources/read", `{"uri":"note://1"}`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"p"}}`}, {"completion/complete", `{"ref":{"type":"ref/resource","uri":"note://{id}"}}`}, {"resources/read", `{"uri":"other://1"}`},
		{"tools/call", `{}`}, {"tools/call", `{"name":7}`}, {"ping", `{}`}, {"resources/list", `{}`}} {
		r.wants(use.method, use.params, "", "")
	}
	r.wants("tools/call", `{"name":"c"}`, "tool_not_found", "Tool not found: c")
	r.wants("tools/call", `{"name":"A"}`, "tool_not_found", "Tool not found: A")
	r.wants("prompts/get", `{"name":"a"}`, "invalid_params", "Prompt not found: a")
	r.lists("["+toolA2+`,{"name":"c d"}]`, `[{"name":"p","arguments":[]}]`, "["+noteOf2+"]", "")
	r.wants("tools/call", `{"name":"a"}`, "definition_held", "the tool a of the server \"one\" is held: its definition has changed since it was approved; an operator looks at it and approves it with `dragoman approve one a`")
	r.wants("tools/call", `{"name":"b"}`, "", "") // it is approved, and may be listed to others
	r.wants("tools/call", `{"name":"c d"}`, "definition_held", "is new and was not approved yet; an operator looks at it and approves it with `dragoman approve one 'c d'`")
	r.wants("prompts/get", `{"name":"p"}`, "definition_held", "prompt p")
	r.wants("resources/read", `{"uri":"note://1"}`, "definition_held", "the resource template note://{id} of the server \"one\" is held: its definition has changed since")
	r.wants("resources/read", `{"uri":"note://listed"}`, "", "")
	r.wants("resources/read", `{"uri":"other://1"}`, "", "")
	r.wants("completion/complete", `{"ref":{"type":"ref/prompt","name":"p"}}`, "definition_held", "prompt p")
	r.wants("completion/complete", `{"ref":{"type":"ref/resource","uri":"note://{id}"}}`, "definition_held", "note://{id}")
	r.wants("completion/complete", `{"ref":{"type":"ref/prompt","name":"p","uri":"other://1"}}`, "definition_held", "prompt p")
	r.lists("["+toolA+","+toolB+"]", "["+promptP+"]", "["+noteOf+"]", "")
	r.wants("tools/call", `{"name":"a"}`, "", "")
	r.wants("resources/read", `{"uri":"note://1"}`, "", "")
}

// A list has what is approved, whatever else Dragoman knows, and in the server's own bytes.
func TestListsAreJudgedByContent(t *testing.T) {
	r := newRig(t, false)
	r.lists("["+toolA+","+toolB+"]", "[]", "[]", "Be kind.")
	list := func(who, result string) string {
		t.Helper()
		r.reply = result
		got, err := r.ask(who, "tools/list", "{}")
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSuffix(strings.TrimPrefix(got, `{"jsonrpc":"2.0","id":1,"result":`), "}")
	}
	for result, want := range map[string]string{
		`{"tools":[` + toolA + `,` + toolB + `],"nextCursor":"x"}`:                                                `{"tools":[` + toolA + `,` + toolB + `],"nextCursor":"x"}`,
		`{"tools":[{"description" : "\u0041","name":"a","_meta":{"x":1}}]}`:                                       `{"tools":[{"description" : "\u0041","name":"a","_meta":{"x":1}}]}`,
		`{"tools":[` + toolA2 + `,` + toolB + `,{"name":"c"},7,{"name":8},{}]}`:                                   `{"tools":[` + toolB + `]}`,
		`{"tools":[` + toolA + `],"Tools":[` + toolA2 + `],"tools":[` + toolA2 + `],"x":1}`:                       `{"tools":[` + toolA + `],"x":1}`,
		`{"TOOLS":[` + toolA2 + `]}`:                                                                              `{}`,
		`{"tools":[{"name":"a","description":"A","Description":"A2"},{"name":"b","name":"a","description":"A"}]}`: `{"tools":[]}`,
		`{"tools":"` + "a" + `"}`: `{"tools":[]}`,
	} {
		if got := list("x", result); got != want {
			t.Errorf("%s becomes %s, want %s", result, got, want)
		}
	}
	if got := list("x", `{"tools":[`+strings.Repeat(toolA+",", 100)+toolA+`]}`); strings.Count(got, toolA) != 101 {
		t.Errorf("a long list: %d", strings.Count(got, toolA))
	}
	r.reply = `{"instructions":"Be evil.","protocolVersion":"x","Instructions":"Be evil."}`
	for _, method := range []string{"initialize", "server/discover"} {
		if got, err := r.ask("x", method, "{}"); err != nil || !strings.Contains(got, `{"instructions":"Be kind.","protocolVersion":"x"}`) {
			t.Errorf("%s: %s, %v", method, got, err)
		}
	}
	if got := r.g.Instructions("Be evil."); got != "Be kind." {
		t.Errorf("shown %q", got)
	}
}

// A caller to whom a server has listed another definition than to Dragoman cannot use it, and others can.
func TestDefinitionOfOneCaller(t *testing.T) {
	r := newRig(t, false)
	r.lists("["+toolA+"]", "[]", "[]", "")
	r.reply = `{"tools":[` + toolA2 + `,{"name":"own"}]}`
	if got, err := r.ask("b", "tools/list", "{}"); err != nil || strings.Contains(got, "name") {
		t.Errorf("%s, %v", got, err)
	}
	call := func(who, tool string) string {
		r.reply = "{}"
		_, err := r.ask(who, "tools/call", `{"name":"`+tool+`"}`)
		if err == nil {
			return ""
		}
		return proxy.AsError(err).Name
	}
	if got := call("a", "a") + "," + call("b", "a") + "," + call("b", "own") + "," + call("a", "own"); got != ",definition_held,definition_held,tool_not_found" {
		t.Error(got)
	}
	held, err := r.g.Held(t.Context())
	if err != nil || len(held) != 2 || held[0].Key != "a" || held[1].Key != "own" || r.g.Count() != 2 {
		t.Fatalf("held %+v, %v, %d", held, err, r.g.Count())
	}
	if _, err := r.g.Approve(t.Context(), "me", []Approval{{"tools", "own", held[1].Hash}}); err != nil {
		t.Error(err)
	}
	if got := call("b", "own") + call("a", "own"); got != "" {
		t.Error(got)
	}
	r.reply = `{"tools":[` + toolA + `]}`
	if _, err := r.ask("b", "tools/list", "{}"); err != nil || call("b", "a") != "" {
		t.Errorf("%v; listed as approved, it is still held", err)
	}
}

// Nothing slips through while it is not known what the server lists, or what is approved.
func TestUnknownDefinitions(t *testing.T) {
	r := newRig(t, false)
	late := proxy.Errf(proxy.Unreachable, "not yet")
	r.await = func() error { return late }
	r.wants("tools/call", `{"name":"a"}`, "upstream_unreachable", "not yet")
	if _, err := r.ask("a", "tools/list", "{}"); !errors.Is(err, late) {
		t.Error(err)
	}
	r.await = func() error { return nil }
	r.wants("tools/call", `{"name":"a"}`, "upstream_unreachable", "the log says why")
	r.store.fails.Store(true)
	r.lists("["+toolA+"]", "[]", "[]", "")
	r.wants("tools/call", `{"name":"a"}`, "upstream_unreachable", "the log says why")
	if _, err := r.ask("a", "tools/list", "{}"); err == nil || len(r.notes) == 0 || !strings.Contains(r.notes[0], "no store") {
		t.Errorf("%v, %q", err, r.notes)
	}
	if _, err := r.g.Held(t.Context()); !errors.Is(err, errStore) {
		t.Error(err)
	}
	r.store.fails.Store(false)
	r.lists("["+toolA+"]", "[]", "[]", "")
	r.wants("tools/call", `{"name":"a"}`, "", "")
	r.store.fails.Store(true) // what is known stays
	r.lists("["+toolA2+"]", "[]", "[]", "")
	r.wants("tools/call", `{"name":"a"}`, "definition_held", "")
	if _, err := r.g.Approve(t.Context(), "me", nil); !errors.Is(err, errStore) {
		t.Error(err)
	}
	r.wants("tools/call", `{"name":"a"}`, "definition_held", "")
}

// The first discovery is approved, or held; one of nothing is none. It is one over a restart, and for other processes.
func TestFirstDiscovery(t *testing.T) {
	r := newRig(t, false)
	r.known.Store(&catalogue.Server{ID: "id", Name: "one", Lists: [catalogue.Kinds]*catalogue.List{{}, {}, {}, {}}})
	r.g.Learn(t.Context())
	r.lists("["+toolA+"]", "[]", "[]", "")
	r.wants("tools/call", `{"name":"a"}`, "", "")
	if r.renews == 0 || len(r.notes) > 0 {
		t.Errorf("%d times renewed, %q", r.renews, r.notes)
	}
	r.open(false)
	r.lists("["+toolA+","+toolB+"]", "[]", "[]", "")
	r.wants("tools/call", `{"name":"a"}`, "", "")
	r.wants("tools/call", `{"name":"b"}`, "definition_held", "")
	r.g.Learn(t.Context())
	if len(r.notes) != 1 || !strings.Contains(r.notes[0], "definitions of a server are held until somebody approves them, as `dragoman approve one` does: tools b: <nil>") {
		t.Errorf("noted %q", r.notes)
	}
	other := New(r.g.opt)
	other.opt.Keeper = NewKeeper(r.store, time.Now)
	if done, err := other.Approve(t.Context(), "me", nil); err != nil || len(done) != 1 || done[0].Key != "b" {
		t.Fatalf("%v, %v", done, err)
	}
	r.wants("tools/call", `{"name":"b"}`, "definition_held", "")
	r.g.Learn(t.Context())
	r.wants("tools/call", `{"name":"b"}`, "", "")

	r = newRig(t, true)
	r.lists("["+toolA+"]", "[]", "[]", "Hi.")
	r.wants("tools/call", `{"name":"a"}`, "definition_held", "")
	if got := r.g.Instructions("Hi."); got != "" || r.g.Count() != 2 {
		t.Errorf("%q, %d", got, r.g.Count())
	}
}

// What is approved is what was looked at.
func TestApprove(t *testing.T) {
	r := newRig(t, false)
	r.lists("["+toolA+","+toolB+"]", "[]", "[]", "")
	r.lists("["+toolA2+`,{"name":"b","title":"t"}]`, "[]", "[]", "New.")
	held, err := r.g.Held(t.Context())
	if err != nil || len(held) != 3 || held[0].Kind != Instructions {
		t.Fatalf("%+v, %v", held, err)
	}
	hash := held[1].Hash
	for _, test := range []struct {
		what []Approval
		want error
	}{
		{[]Approval{{"tools", "a", hash}, {"tools", "b", hash}}, ErrAnother}, {[]Approval{{"tools", "a", ""}, {"tools", "c", ""}}, ErrNotHeld}, {[]Approval{{"prompts", "a", hash}}, ErrNotHeld},
	} {
		if _, err := r.g.Approve(t.Context(), "me", test.what); !errors.Is(err, test.want) {
			t.Errorf("%v: %v", test.what, err)
		}
	}
	r.wants("tools/call", `{"name":"a"}`, "definition_held", "")
	for range 2 { // the second time it is approved already
		if _, err := r.g.Approve(t.Context(), "me", []Approval{{"tools", "a", hash}}); err != nil {
			t.Error(err)
		}
	}
	r.wants("tools/call", `{"name":"a"}`, "", "")
	if done, err := r.g.Approve(t.Context(), "me", []Approval{}); err != nil || len(done) != 0 {
		t.Errorf("%v, %v", done, err)
	}
	if done, err := r.g.Approve(t.Context(), "me", nil); err != nil || len(done) != 2 || r.g.Count() != 0 || r.g.Instructions("New.") != "New." {
		t.Errorf("%v, %v", done, err)
	}
	pins, _ := r.store.MemoryPins.Pins(t.Context(), "id")
	if len(pins) != 4 || pins[2].Key != "a" || pins[2].By != "me" || string(pins[2].Definition) != toolA2 {
		t.Errorf("stored %+v", pins)
	}
	var off *Guard
	if _, err := off.Approve(t.Context(), "me", nil); !errors.Is(err, ErrOff) || off.Policy() != nil || off.Shown() != nil || off.Count() != 0 || off.Refuse(nil) != nil {
		t.Error("a nil Guard guards")
	}
}

// Approving all that is held takes back no approval: of a tool of which a caller is shown another definition the approved one stays. That one
// can be approved by its hash.
func TestApproveAllOfTwo(t *testing.T) {
	r := newRig(t, false)
	r.lists("["+toolA+"]", "[]", "[]", "")
	r.wants("tools/call", `{"name":"a"}`, "", "")
	who := proxy.Identity{}
	other := Of(catalogue.Tools, "a", []byte(toolA2))
	a := r.g.opt.Keeper.of(r.known.Load().ID)
	a.listed(who, &other, false)
	held, err := r.g.Held(t.Context())
	if err != nil || len(held) != 1 {
		t.Fatalf("held %v, %v", held, err)
	}
	if done, err := r.g.Approve(t.Context(), "me", nil); err != nil || len(done) != 0 {
		t.Errorf("approved %v, %v", done, err)
	}
	if done, err := r.g.Approve(t.Context(), "me", []Approval{{Kind: held[0].Kind, Key: held[0].Key, Hash: held[0].Hash}}); err != nil || len(done) != 1 {
		t.Errorf("approved %v, %v", done, err)
	}
}

// Lists, calls, readings and approvals may come at once.
func TestConcurrency(t *testing.T) {
	r := newRig(t, false)
	r.g.opt.Renew, r.g.opt.Note = func() {}, func(string, error) {}
	r.lists("["+toolA+"]", "["+promptP+"]", "["+noteOf+"]", "x")
	states := [2]*catalogue.Server{r.known.Load()}
	r.lists("["+toolA2+"]", "["+promptP+"]", "["+noteOf2+"]", "y")
	states[1] = r.known.Load()
	policy := r.g.Policy()(func(*proxy.Exchange) (proxy.Replies, error) {
		answer, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[` + toolA + `,` + toolA2 + `],"instructions":"x"}}`))
		if err != nil {
			return nil, err
		}
		return proxy.Reply(answer), nil
	})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 100 {
				switch i {
				case 0:
					r.known.Store(states[n%2])
					r.g.Learn(t.Context())
				case 1:
					_, _ = r.g.Approve(t.Context(), "me", nil)
					_, _ = r.g.Held(t.Context())
					r.g.Count()
				default:
					for _, text := range []string{`"tools/list","params":{}`, `"tools/call","params":{"name":"a"}`, `"resources/read","params":{"uri":"note://1"}`, `"initialize","params":{}`} {
						m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":` + text + `}`))
						if err != nil {
							t.Error(err)
							return
						}
						replies, err := policy(&proxy.Exchange{Msg: m, Caller: proxy.Caller{Principal: fmt.Sprint(i)}})
						if err != nil {
							continue
						}
						if _, err := proxy.Response(replies, time.Time{}); err != nil {
							t.Error(err)
						}
					}
				}
			}
		})
	}
	all.Wait()
	r.known.Store(states[0])
	if _, err := r.g.Approve(t.Context(), "me", nil); err != nil {
		t.Fatal(err)
	}
	r.wants("tools/call", `{"name":"a"}`, "", "")
	r.known.Store(states[1])
	r.wants("tools/call", `{"name":"a"}`, "definition_held", "")
}
