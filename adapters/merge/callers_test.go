package merge

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/view"
	"dragoman/adapters/rules"
	"dragoman/internal/testkit"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// bearing returns the caller whose requests carry a token to members that want it.
func bearing(token string) proxy.Caller {
	sum := sha256.Sum256([]byte(token))
	return proxy.Caller{Forwarded: &proxy.Forwarded{Headers: []proxy.Header{{Name: "authorization", Value: token}}, Sum: [16]byte(sum[:16])}}
}

// tokenOf returns the token of a caller; "nobody" if it has none.
func tokenOf(caller proxy.Caller) string {
	if token, ok := caller.Forwarded.Get("authorization"); ok {
		return token
	}
	return "nobody"
}

// vault is a server that shows each token other tools and resources. The demonstration server shows everybody the same.
type vault struct {
	mu      sync.Mutex
	more    map[string][]string // further tools, by token
	refuses map[string]bool     // tokens
	reads   map[string]int      // how often tools were listed, by token
	calls   []string            // "token tool"
	listens map[chan string]string
	streams map[*proxy.Session]string
}

func newVault() *vault {
	return &vault{more: map[string][]string{}, refuses: map[string]bool{}, reads: map[string]int{}, listens: map[chan string]string{}, streams: map[*proxy.Session]string{}}
}

func (k *vault) do(ex *proxy.Exchange) (proxy.Replies, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	m, token, result := &ex.Msg, tokenOf(ex.Caller), `{}`
	const caps = `{"tools":{"listChanged":true},"resources":{"listChanged":true}}`
	if m.Kind == wire.Request && k.refuses[token] {
		return nil, proxy.Errf(proxy.Refused, "who are you?")
	}
	switch {
	case m.Kind != wire.Request:
		return nil, nil
	case m.Is("initialize"):
		k.streams[ex.Session] = token
		result = `{"protocolVersion":"2025-11-25","capabilities":` + caps + `,"serverInfo":{"name":"k","version":"1"},"instructions":"Hello ` + token + `."}`
	case m.Is("server/discover"):
		result = `{"resultType":"complete","capabilities":` + caps + `,"instructions":"Hello ` + token + `."}`
	case m.Is("tools/list"):
		k.reads[token]++
		var all []string
		for _, name := range append([]string{"common", "secret-" + token}, k.more[token]...) {
			all = append(all, `{"name":"`+name+`"}`)
		}
		result = `{"tools":[` + strings.Join(all, ",") + `]}`
	case m.Is("resources/list"):
		result = `{"resources":[{"uri":"` + token + `://x","name":"x"}]}`
	case m.Is("resources/templates/list"):
		result = `{"resourceTemplates":[{"uriTemplate":"` + token + `://t/{id}","name":"t"}]}`
	case m.Is("tools/call"):
		k.calls = append(k.calls, token+" "+string(m.Text(m.Name)))
		result = `{"content":[]}`
	case m.Is("resources/read"):
		result = `{"contents":[{"uri":"` + string(m.Text(m.URI)) + `","text":"for ` + token + `"}]}`
	case m.Is("subscriptions/listen"):
		told := make(chan string, 10)
		told <- `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true}}}`
		k.listens[told] = token
		return &vaultListen{k, ex, told}, nil
	}
	return proxy.Reply(proxy.ResultMessage(m.Of(m.ID), []byte(result))), nil
}

// change adds a tool for a token, and tells those that listen with it.
func (k *vault) change(token, tool string) {
	k.mu.Lock()
	k.more[token] = append(k.more[token], tool)
	var told []*proxy.Session
	for s, of := range k.streams {
		if of == token && s.State() == proxy.Initialized {
			told = append(told, s)
		}
	}
	const notice = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	for c, of := range k.listens {
		if of == token {
			c <- notice
		}
	}
	k.mu.Unlock()
	for _, s := range told {
		_ = s.Push([]byte(notice))
	}
}

// listening returns how many listens a token has.
func (k *vault) listening(token string) (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, of := range k.listens {
		if of == token {
			n++
		}
	}
	return n
}

// vaultListen are the replies of a listen.
type vaultListen struct {
	k    *vault
	ex   *proxy.Exchange
	told chan string
}

// Next implements proxy.Replies.
func (l *vaultListen) Next(time.Time) (*wire.Message, error) {
	select {
	case raw := <-l.told:
		return proxy.Scanned([]byte(raw))
	case <-l.ex.Done():
		return nil, l.ex.Err()
	}
}

// Close implements proxy.Replies.
func (l *vaultListen) Close() error {
	l.k.mu.Lock()
	defer l.k.mu.Unlock()
	delete(l.k.listens, l.told)
	return nil
}

// vaultRig merges a vault k, whose callers have lists of their own if they have a token, and a server b with a tool "shared" for all.
func vaultRig(t *testing.T, modern bool) (*rig, *vault) {
	t.Helper()
	k, b := newVault(), newTalker()
	r := newRig(t, Options{Members: []Member{{Member: view.Member{Name: "k"}, Do: k.do}, {Member: view.Member{Name: "b"}, Do: b.do}}})
	r.modern = func(_ context.Context, server string) (bool, error) { return modern && server == "k", nil }
	r.apart = map[string]func(proxy.Caller) bool{"k": func(c proxy.Caller) bool { return c.Forwarded != nil }}
	r.Start()
	r.settled()
	r.catalogue.SetList("b", catalogue.Tools, catalogue.List{Items: []catalogue.Item{{Key: "shared", Raw: []byte(`{"name":"shared"}`)}}})
	return r, k
}

// asks returns how a caller asks, as a modern client and as a legacy one.
func (r *rig) asks(caller proxy.Caller) map[string]func(method, params string) reply {
	return map[string]func(method, params string) reply{
		"modern": func(method, params string) reply {
			ex := exchange(r.t, method, params)
			ex.Caller = caller
			return drain(r.Do(ex))
		},
		"legacy": r.newPeerOf(caller, false).call,
	}
}

// eachEra runs a test with a legacy and a modern vault.
func eachEra(t *testing.T, test func(t *testing.T, r *rig, k *vault)) {
	for era, modern := range map[string]bool{"legacy member": false, "modern member": true} {
		t.Run(era, func(t *testing.T) {
			r, k := vaultRig(t, modern)
			test(t, r, k)
		})
	}
}

// What a member lists to the bearer of a token is seen by that bearer only, in lists, by name and in errors.
func TestListsBelongToTheirCallers(t *testing.T) {
	eachEra(t, func(t *testing.T, r *rig, k *vault) {
		k.more["ann"] = []string{"shared"}
		for _, token := range []string{"ann", "bob", "nobody"} {
			caller := bearing(token)
			if token == "nobody" {
				caller = proxy.Caller{}
			}
			for era, ask := range r.asks(caller) {
				who := token + ", " + era
				want := []string{"b.shared", "k.common", "k.secret-" + token}
				if token == "ann" {
					want = append(want, "k.shared")
				}
				got := ask("tools/list", "")
				if !slices.Equal(got.keysOf("tools", "name"), want) || got.at("_meta", "io.dragoman/servers") != "" || era == "modern" && token != "nobody" && got.at("cacheScope") != "private" {
					t.Errorf("%s sees %v", who, got)
				}
				if got := ask("resources/list", "").keysOf("resources", "uri"); !slices.Equal(got, []string{token + "://x"}) {
					t.Errorf("%s sees %v", who, got)
				}
				if got := ask("resources/templates/list", "").keysOf("resourceTemplates", "uriTemplate"); !slices.Equal(got, []string{token + "://t/{id}"}) {
					t.Errorf("%s sees %v", who, got)
				}
				for _, other := range []string{"ann", "bob", "nobody"} {
					call, read := ask("tools/call", `"name":"secret-`+other+`","arguments":{}`), ask("resources/read", `"uri":"`+other+`://x"`)
					expanded := ask("resources/read", `"uri":"`+other+`://t/7"`)
					if other == token {
						if call.err != nil || read.at("contents") != `[{"uri":"`+token+`://x","text":"for `+token+`"}]` || expanded.err != nil {
							t.Errorf("%s uses its own: %v, %v, %v", who, call, read, expanded)
						}
						continue
					}
					for _, got := range []reply{call, read, expanded} {
						if got.err == nil || !strings.Contains(got.err.Error(), "not found: ") || strings.Contains(got.err.Error(), "k") {
							t.Errorf("%s uses what is shown to %s: %v", who, other, got)
						}
					}
				}
				got = ask("tools/call", `"name":"shared","arguments":{}`)
				if ambiguous := got.err != nil && strings.Contains(got.err.Error(), "b.shared, k.shared"); ambiguous != (token == "ann") {
					t.Errorf("%s calls shared: %v", who, got)
				}
				if got := ask("server/discover", ""); era == "modern" && !strings.Contains(got.at("instructions"), "Hello "+token+".") {
					t.Errorf("%s: %v", who, got)
				}
			}
		}
		for _, call := range k.calls {
			if token, tool, _ := strings.Cut(call, " "); !strings.HasSuffix(tool, token) {
				t.Errorf("called %s", call)
			}
		}
		if s := r.catalogue.Snapshot(); s.Owner("ann://x") != "" || len(s.Server("k").Lists[catalogue.Tools].Items) != 2 {
			t.Errorf("the catalogue has %v", s.Server("k").Lists[catalogue.Tools].Items)
		}
	})
}

// Lists are read once for all requests of a caller, and again when the member says that they have changed.
func TestListsOfCallersAreKept(t *testing.T) {
	eachEra(t, func(t *testing.T, r *rig, k *vault) {
		for range 3 {
			for _, ask := range r.asks(bearing("ann")) {
				ask("tools/list", "")
				ask("tools/call", `"name":"common","arguments":{}`)
			}
		}
		if n := k.reads["ann"]; n != 1 {
			t.Errorf("the lists were read %d times", n)
		}
	})
}

// Who listens with a token is told of changes that concern it, whatever its era; others are not.
func TestChangesReachTheirCallers(t *testing.T) {
	eachEra(t, func(t *testing.T, r *rig, k *vault) {
		seated, unseated, other := r.newPeerOf(bearing("ann"), true), r.newPeerOf(bearing("ann"), true), r.newPeerOf(bearing("bob"), true)
		for _, p := range []*peer{seated, other} {
			if got := p.call("tools/call", `"name":"k.common","arguments":{}`); got.err != nil {
				t.Fatal(got.err)
			}
		}
		_, ann := r.listensAs(bearing("ann"), "")
		exBob, bob := r.listensAs(bearing("bob"), "")
		testkit.Eventually(t, "listens at the member", func() bool { return k.listening("ann") > 0 && k.listening("bob") > 0 })
		k.change("ann", "new")
		if got := ann(); !strings.Contains(got, rules.ListChanged("tools")) {
			t.Errorf("the listen of ann is told %s", got)
		}
		for what, p := range map[string]*peer{"with a session there": seated, "without": unseated} {
			if got := <-p.pushed; !strings.Contains(got, rules.ListChanged("tools")) {
				t.Errorf("%s: pushed %s", what, got)
			}
			if got := p.call("tools/list", "").keysOf("tools", "name"); !slices.Contains(got, "k.new") {
				t.Errorf("%s: %v", what, got)
			}
		}
		for era, ask := range r.asks(bearing("ann")) {
			if got := ask("tools/list", "").keysOf("tools", "name"); !slices.Contains(got, "k.new") {
				t.Errorf("a %s client sees %v", era, got)
			}
		}
		k.change("ann", "newer")
		if got := ann(); !strings.Contains(got, rules.ListChanged("tools")) || k.listening("ann") != 1 {
			t.Errorf("the listen of ann is told %s; at the member it has %d listens", got, k.listening("ann"))
		}
		exBob.Cancel(proxy.ErrCancelled)
		if got := bob(); got != proxy.ErrCancelled.Error() || len(other.pushed) != 0 {
			t.Errorf("bob was told %s, and %d messages", got, len(other.pushed))
		}
		if got := other.call("tools/list", "").keysOf("tools", "name"); slices.Contains(got, "k.new") {
			t.Errorf("bob sees %v", got)
		}
	})
}

// A change that a caller's session at the member hears of reaches the caller's other sessions, also if nobody listens.
func TestChangesReachOtherSessionsOfACaller(t *testing.T) {
	eachEra(t, func(t *testing.T, r *rig, k *vault) {
		seated, unseated := r.newPeerOf(bearing("ann"), true), r.newPeerOf(bearing("ann"), true)
		if got := seated.call("tools/call", `"name":"k.common","arguments":{}`); got.err != nil {
			t.Fatal(got.err)
		}
		k.change("ann", "new")
		for what, p := range map[string]*peer{"with a session there": seated, "without": unseated} {
			if got := testkit.Receive(t, "a notice "+what, p.pushed); !strings.Contains(got, rules.ListChanged("tools")) {
				t.Errorf("%s: pushed %s", what, got)
			}
		}
	})
}

// A change of what everybody is shown makes what a caller is shown be read again, also for a legacy client that asks for nothing.
func TestChangesForAllConcernCallers(t *testing.T) {
	eachEra(t, func(t *testing.T, r *rig, k *vault) {
		p := r.newPeerOf(bearing("ann"), true)
		k.mu.Lock()
		k.more["ann"] = []string{"new"}
		k.mu.Unlock()
		k.change("nobody", "newer") // Dragoman's own session hears of it
		if got := <-p.pushed; !strings.Contains(got, rules.ListChanged("tools")) {
			t.Errorf("pushed %s", got)
		}
		if got := p.call("tools/list", "").keysOf("tools", "name"); !slices.Contains(got, "k.new") || slices.Contains(got, "k.newer") {
			t.Errorf("ann sees %v", got)
		}
	})
}

// Of more callers than are remembered, those that are forgotten are not told of changes, which would make all of them ask without end.
func TestForgottenCallersAreNotTold(t *testing.T) {
	eachEra(t, func(t *testing.T, r *rig, k *vault) {
		p := r.newPeerOf(bearing("ann"), true)
		for i := range 300 {
			r.asks(bearing(fmt.Sprint("caller ", i)))["modern"]("tools/list", "")
		}
		_, ann := r.listensAs(bearing("caller 299"), "")
		testkit.Eventually(t, "a listen at the member", func() bool { return k.listening("caller 299") > 0 })
		k.change("caller 299", "new")
		if got := ann(); !strings.Contains(got, rules.ListChanged("tools")) || len(p.pushed) != 0 {
			t.Errorf("told %s; a forgotten caller was told of %d changes", got, len(p.pushed))
		}
	})
}

// A member that lists nothing to a caller is left out for that caller, which is told so, and never shows what it lists to others.
func TestListsOfACallerThatCannotBeRead(t *testing.T) {
	eachEra(t, func(t *testing.T, r *rig, k *vault) {
		k.refuses["ann"] = true
		for era, ask := range r.asks(bearing("ann")) {
			got := ask("tools/list", "")
			if !slices.Equal(got.keysOf("tools", "name"), []string{"b.shared"}) || era == "modern" && got.at("_meta", "io.dragoman/servers") != `[{"name":"k","list":"not listed yet"}]` {
				t.Errorf("%s: %v", era, got)
			}
		}
		for era, ask := range r.asks(bearing("bob")) {
			if got := ask("tools/list", ""); len(got.keysOf("tools", "name")) != 3 || got.at("_meta", "io.dragoman/servers") != "" {
				t.Errorf("bob, %s: %v", era, got)
			}
		}
	})
}

// A member that refuses everybody without a token is offered to those that have one.
func TestServersThatNeedAToken(t *testing.T) {
	k := newVault()
	k.refuses["nobody"] = true
	r := newRig(t, Options{Members: []Member{{Member: view.Member{Name: "k"}, Do: k.do}}})
	r.apart = map[string]func(proxy.Caller) bool{"k": func(c proxy.Caller) bool { return c.Forwarded != nil }}
	r.Start()
	for era, ask := range r.asks(bearing("ann")) {
		if got := ask("tools/list", "").keysOf("tools", "name"); !slices.Equal(got, []string{"k.common", "k.secret-ann"}) {
			t.Errorf("%s: %v", era, got)
		}
		if got := ask("server/discover", ""); era == "modern" && got.at("capabilities", "tools", "listChanged") != "true" {
			t.Errorf("%v", got)
		}
	}
	p := &peer{r: r, session: proxy.NewSession("s", "streamable-http", "", bearing("bob"), time.Now())}
	defer p.session.End(proxy.Closed)
	if got := p.call("initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}`); got.at("capabilities", "tools", "listChanged") != "true" || !strings.Contains(got.at("instructions"), "Hello bob.") {
		t.Errorf("initialize: %v", got)
	}
}

// A member that first asks the client something is told that nobody can answer, and then lists to its callers, too. A list that it refuses
// hides no other.
func TestListsOfACallerThatIsAsked(t *testing.T) {
	k, answered := newVault(), make(chan struct{})
	var once sync.Once
	asks := func(ex *proxy.Exchange) (proxy.Replies, error) {
		m := &ex.Msg
		switch {
		case tokenOf(ex.Caller) == "nobody":
		case m.Is("notifications/initialized"):
			if err := ex.Session.Push([]byte(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)); err != nil {
				t.Errorf("nobody takes what the server asks: %v", err)
				once.Do(func() { close(answered) })
			}
		case m.IsResponse():
			once.Do(func() { close(answered) })
		case m.Is("tools/list"):
			<-answered
		case m.Is("resources/list"):
			return proxy.Reply(proxy.ErrorMessage(m.Of(m.ID), proxy.Errf(proxy.Internal, "not today"))), nil
		}
		return k.do(ex)
	}
	r := newRig(t, Options{Members: []Member{{Member: view.Member{Name: "k"}, Do: asks}}})
	r.apart = map[string]func(proxy.Caller) bool{"k": func(c proxy.Caller) bool { return c.Forwarded != nil }}
	r.Start()
	r.settled()
	ask := r.asks(bearing("ann"))["modern"]
	if got := ask("tools/list", ""); !slices.Equal(got.keysOf("tools", "name"), []string{"k.common", "k.secret-ann"}) || got.at("_meta", "io.dragoman/servers") != "" {
		t.Errorf("tools: %v", got)
	}
	if got := ask("resources/list", ""); got.at("resources") != "[]" || got.at("_meta", "io.dragoman/servers") != `[{"name":"k","list":"not listed yet"}]` {
		t.Errorf("resources: %v", got)
	}
}

// A member that does not answer a caller delays nobody else, and is read on although the request that has begun it is cancelled.
func TestSlowListsOfACaller(t *testing.T) {
	k, begun, proceed := newVault(), make(chan struct{}), make(chan struct{})
	slow := func(ex *proxy.Exchange) (proxy.Replies, error) {
		if ex.Msg.Is("initialize") && tokenOf(ex.Caller) == "ann" {
			close(begun)
			select {
			case <-proceed:
			case <-ex.Done():
				return nil, errors.New("cut off")
			}
		}
		return k.do(ex)
	}
	r := newRig(t, Options{Members: []Member{{Member: view.Member{Name: "k"}, Do: slow}}})
	r.apart = map[string]func(proxy.Caller) bool{"k": func(c proxy.Caller) bool { return c.Forwarded != nil }}
	r.Start()
	r.settled()
	ask := r.asks(bearing("bob"))["modern"]
	if got := ask("tools/list", "").keysOf("tools", "name"); len(got) != 2 {
		t.Errorf("bob sees %v", got)
	}
	ex, done := exchange(t, "tools/list", ""), make(chan reply)
	ex.Caller = bearing("ann")
	go func() { done <- drain(r.Do(ex)) }()
	<-begun
	ex.Cancel(proxy.ErrCancelled)
	if got := <-done; !errors.Is(got.err, proxy.ErrCancelled) {
		t.Errorf("a caller that leaves: %v", got)
	}
	close(proceed)
	if got := fmt.Sprint(r.asks(bearing("ann"))["modern"]("tools/list", "").keysOf("tools", "name")); got != "[k.common k.secret-ann]" {
		t.Errorf("ann sees %s", got)
	}
}
