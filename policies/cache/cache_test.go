package cache

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// cacheRig is a cache in front of a server that counts.
type cacheRig struct {
	t     *testing.T
	c     *Cache
	calls int
	reply string
	mid   func() // while the server answers
	p     proxy.Handler
}

func newCacheRig(t *testing.T, bytes int) *cacheRig {
	t.Helper()
	r := &cacheRig{t: t, mid: func() {}}
	var err error
	if r.c, err = New(Options{Bytes: bytes, TTL: time.Hour}, prometheus.NewRegistry()); err != nil {
		t.Fatal(err)
	}
	r.p = r.c.Policy("up")(func(ex *proxy.Exchange) (proxy.Replies, error) {
		r.calls++
		r.mid()
		ex.Target = "up"
		return proxy.Reply(policytest.Scan(t, strings.ReplaceAll(r.reply, "$ID", string(ex.Msg.Of(ex.Msg.ID))))), nil
	})
	return r
}

// ask sends a request, and returns the answer and whether the server was asked.
func (r *cacheRig) ask(who, request string, era proxy.Era) (got string, asked bool) {
	r.t.Helper()
	before := r.calls
	replies, err := r.p(&proxy.Exchange{Msg: policytest.Scan(r.t, request), Caller: proxy.Caller{Principal: who}, Client: proxy.Client{Era: era, Version: "2026-07-28"}})
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = replies.Close() }()
	m, err := replies.Next(time.Time{})
	if err != nil {
		r.t.Fatal(err)
	}
	return string(m.Append(nil)), r.calls > before
}

func cached1(ttl int, scope string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":$ID,"result":{"tools":[],"resultType":"complete","ttlMs":%d,"cacheScope":%q}}`, ttl, scope)
}

// modernList lists the tools; extra has members of params and _meta.
func modernList(id, params, meta string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/list","params":{%s"_meta":{%s"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, id, params, meta)
}

func TestCacheKeepsForAsLongAsItIsGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCacheRig(t, 1<<20)
		r.reply = cached1(10_000, "public")
		for _, c := range []struct {
			name, who, request string
			after              time.Duration
			asked              bool
			has                string
		}{
			{"first", "ann", modernList("1", "", ""), 0, true, `"id":1`},
			{"again", "ann", modernList(`"b"`, "", ""), time.Second, false, `"id":"b","result":{"tools":[],"resultType":"complete","ttlMs":9000,`},
			{"public: another's", "bob", modernList("3", "", ""), time.Second, false, `"ttlMs":8000`},
			{"what an attempt makes anew does not count", "bob", modernList("3", "", `"progressToken":7,"traceparent":"x",`), 0, false, `"id":3`},
			{"another page", "bob", modernList("4", `"cursor":"c",`, ""), 0, true, ""},
			{"other capabilities", "bob", modernList("5", "", `"io.modelcontextprotocol/clientCapabilities":{"roots":{}},`), 0, true, ""},
			{"a retry with answers", "bob", modernList("6", `"inputResponses":{},`, ""), 0, true, ""},
			{"not good any more", "bob", modernList("7", "", ""), 8 * time.Second, true, `"id":7`},
		} {
			time.Sleep(c.after)
			if got, asked := r.ask(c.who, c.request, proxy.Modern); asked != c.asked || !strings.Contains(got, c.has) {
				t.Errorf("%s: %s, asked %v, want %v and %s", c.name, got, asked, c.asked, c.has)
			}
		}
		if _, asked := r.ask("ann", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, proxy.Legacy); !asked {
			t.Error("a legacy client got the entry of a modern one")
		}
	})
}

func TestCacheKeepsPrivateApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCacheRig(t, 1<<20)
		r.reply = cached1(10_000, "private")
		for _, c := range []struct {
			who   string
			asked bool
		}{{"ann", true}, {"ann", false}, {"bob", true}, {"", true}, {"", false}, {"bob", false}} {
			if _, asked := r.ask(c.who, modernList("1", "", ""), proxy.Modern); asked != c.asked {
				t.Errorf("%q: asked %v, want %v", c.who, asked, c.asked)
			}
		}
	})
}

func TestCacheKeepsOnlyWhatItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, reply := range map[string]string{
			"stale at once":   cached1(0, "public"),
			"no word of it":   `{"jsonrpc":"2.0","id":$ID,"result":{"tools":[]}}`,
			"not complete":    `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"input_required","ttlMs":1000,"cacheScope":"public"}}`,
			"an error":        `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32603,"message":"ttlMs"}}`,
			"negative":        cached1(-5, "public"),
			"an unread scope": `{"jsonrpc":"2.0","id":$ID,"result":{"tools":[],"ttlMs":1000.5,"cacheScope":"public"}}`,
		} {
			r := newCacheRig(t, 1<<20)
			r.reply = reply
			r.ask("ann", modernList("1", "", ""), proxy.Modern)
			if _, asked := r.ask("ann", modernList("1", "", ""), proxy.Modern); !asked {
				t.Errorf("%s: was kept", name)
			}
		}
		r := newCacheRig(t, 1<<20)
		r.reply = cached1(1e15, "public")
		r.ask("ann", modernList("1", "", ""), proxy.Modern)
		time.Sleep(time.Hour)
		if _, asked := r.ask("ann", modernList("1", "", ""), proxy.Modern); !asked {
			t.Error("kept for longer than cache.ttl")
		}
	})
}

func TestCacheDropsWhatHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCacheRig(t, 1<<20)
		r.reply = cached1(10_000, "public")
		read := `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a:b/c"}}`
		changed := func(notice string) {
			m := policytest.Scan(t, notice)
			r.c.Changed("up", &m)
		}
		prime := func() {
			r.ask("", modernList("1", "", ""), proxy.Modern)
			r.ask("", read, proxy.Modern)
		}
		prime()
		for _, c := range []struct {
			notice            string
			listGone, readOut bool
		}{
			{`{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`, false, false},
			{`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, true, false},
			{`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:y"}}`, false, false},
			{`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b/c"}}`, false, true},
			{`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}`, false, true},
			{`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`, false, false},
		} {
			changed(c.notice)
			_, list := r.ask("", modernList("1", "", ""), proxy.Modern)
			_, out := r.ask("", read, proxy.Modern)
			if list != c.listGone || out != c.readOut {
				t.Errorf("%s: list asked for %v, resource %v", c.notice, list, out)
			}
		}
		time.Sleep(time.Minute) // a change while the answer is on its way: the answer may be older
		r.mid = func() { changed(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`) }
		r.ask("", modernList("1", "", ""), proxy.Modern)
		r.mid = func() {}
		if _, asked := r.ask("", modernList("1", "", ""), proxy.Modern); !asked {
			t.Error("an answer that may be older than a change was kept")
		}
		listen, err := r.c.Policy("up")(func(*proxy.Exchange) (proxy.Replies, error) {
			return proxy.Reply(policytest.Scan(t, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)), nil
		})(&proxy.Exchange{Msg: policytest.Scan(t, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}`), Client: proxy.Client{Era: proxy.Modern}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := listen.Next(time.Time{}); err != nil {
			t.Fatal(err)
		}
		_ = listen.Close()
		if _, asked := r.ask("", modernList("1", "", ""), proxy.Modern); !asked {
			t.Error("a notification on a client's listen did not drop the entry")
		}
	})
}

func TestCacheIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCacheRig(t, 10_000)
		r.reply = cached1(10_000, "public")
		for i := range 1000 {
			r.ask("", modernList("1", fmt.Sprintf(`"cursor":"%d",`, i), ""), proxy.Modern)
			if r.c.bytes > 10_000 || r.c.bytes < 0 {
				t.Fatalf("%d bytes", r.c.bytes)
			}
		}
		sum := 0
		for _, k := range r.c.lru.Keys() {
			v, _ := r.c.lru.Peek(k)
			sum += size(k, v)
		}
		if sum != r.c.bytes || r.c.lru.Len() < 10 {
			t.Errorf("%d results of %d bytes, counted as %d", r.c.lru.Len(), sum, r.c.bytes)
		}
		if none, err := New(Options{}, nil); none != nil || err != nil || none.Policy("up") != nil {
			t.Error("there is a policy although it is off")
		}
		var off *Cache
		off.Changed("up", &wire.Message{})
	})
}
