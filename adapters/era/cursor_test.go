package era

import (
	"testing"
	"time"

	"dragoman/adapters/era/internal/fakeserver"
)

// Only lists are paginated: a cursor member in other requests and results passes unchanged.
func TestCursorsOfListsOnly(t *testing.T) {
	u := newPooled(t, &fakeServer{}, 10, time.Hour)
	session, err := u.pool.Acquire(modernExchange(t, "p", `{"name":"n"}`, "{}"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Release()
	f := func(method string, want bool) {
		t.Helper()
		ex := modernExchange(t, "p", `{"name":"n"}`, "{}")
		c := &downCall{u: u, ex: ex, method: method, session: session}
		const result = `{"jsonrpc":"2.0","id":1,"result":{"nextCursor":"a"}}`
		m := fakeserver.Scan(t, result)
		c.markPage(m)
		if marked := string(m.Append(nil)) != result; marked != want {
			t.Errorf("%s: %s", method, m.Append(nil))
		}
		back := &downCall{u: u, ex: ex, method: method}
		next := fakeserver.Scan(t, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"cursor":`+sealedCursor(t, c)+`}}`)
		ex.Msg = *next
		back.turnPage()
		if turned := back.page == session.Number(); turned != want {
			t.Errorf("%s: page %d", method, back.page)
		}
	}
	f("tools/list", true)
	f("resources/templates/list", true)
	f("tools/call", false)
	f("completion/complete", false)
}

// sealedCursor returns a cursor as an earlier page of the same list would carry it.
func sealedCursor(t *testing.T, c *downCall) string {
	t.Helper()
	list := *c
	list.method = "tools/list"
	m := fakeserver.Scan(t, `{"jsonrpc":"2.0","id":1,"result":{"nextCursor":"a"}}`)
	list.markPage(m)
	raw := m.Append(nil)
	return string(raw[len(`{"jsonrpc":"2.0","id":1,"result":{"nextCursor":`) : len(raw)-2])
}
