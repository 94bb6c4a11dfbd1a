package era

import (
	"testing"
	"time"
)

// Pages are what lists have: a member of that name in another result, or another request's, is not Dragoman's to touch.
func TestCursorsOfListsOnly(t *testing.T) {
	u := newPooled(t, &fakeServer{}, 10, time.Hour)
	session, err := u.pool.Acquire(modernExchange(t, "p", `{"name":"n"}`, "{}"), false, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Release(false)
	f := func(method string, want bool) {
		t.Helper()
		ex := modernExchange(t, "p", `{"name":"n"}`, "{}")
		c := &downCall{u: u, ex: ex, method: method, session: session}
		const result = `{"jsonrpc":"2.0","id":1,"result":{"nextCursor":"a"}}`
		m := scan(t, result)
		pageMark(m, c.ex, c.method, "up", c.session.Number(), c.u.store.Sealer())
		if marked := string(m.Append(nil)) != result; marked != want {
			t.Errorf("%s: %s", method, m.Append(nil))
		}
		back := &downCall{u: u, ex: ex, method: method}
		next := scan(t, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"cursor":`+sealedCursor(t, c)+`}}`)
		ex.Msg = *next
		back.page = turnPage(ex, method, "up", u.store.Sealer())
		if turned := back.page == session.Number(); turned != want {
			t.Errorf("%s: page %d", method, back.page)
		}
	}
	f("tools/list", true)
	f("resources/templates/list", true)
	f("tools/call", false)
	f("completion/complete", false)
}

// sealedCursor is a cursor as a list of the same call would have given it out.
func sealedCursor(t *testing.T, c *downCall) string {
	t.Helper()
	list := *c
	list.method = "tools/list"
	m := scan(t, `{"jsonrpc":"2.0","id":1,"result":{"nextCursor":"a"}}`)
	pageMark(m, list.ex, list.method, "up", list.session.Number(), list.u.store.Sealer())
	raw := m.Append(nil)
	return string(raw[len(`{"jsonrpc":"2.0","id":1,"result":{"nextCursor":`) : len(raw)-2])
}
