package proxy

import (
	"strings"
	"testing"

	"dragoman/proxy/wire"
)

type counted struct{ n int }

func (c *counted) Do(*Exchange) (Replies, error) { c.n++; return Reply(wire.Message{}), nil }
func (c *counted) Close() error                  { return nil }

// The error names the servers that there are; a cancelled exchange goes to no server.
func TestRouterRefuses(t *testing.T) {
	a, b := &counted{}, &counted{}
	r := NewRouter(NewTable(nil, &Target{"a", a}, &Target{"b", b}))
	for want, ex := range map[string]*Exchange{
		"this path is of no server; name one: /servers/NAME/mcp with NAME one of a, b": {},
		`no server "c" is configured; there is a, b`:                                   {Server: "c"},
	} {
		if _, err := r.Do(ex); AsError(err).Name != ServerUnknown.Name || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		} else if data := string(AsError(err).Data); data != `{"code":"server_unknown","retryable":false,"servers":["a","b"]}` {
			t.Errorf("%s: %s", want, data)
		}
	}
	ex := &Exchange{Server: "a"}
	if _, err := r.Do(ex); err != nil || a.n != 1 || ex.Target != "a" {
		t.Errorf("%v, %d calls of %q", err, a.n, ex.Target)
	}
	ex = &Exchange{Server: "a"}
	ex.Cancel(ErrCancelled)
	if _, err := r.Do(ex); err != ErrCancelled || a.n != 1 {
		t.Errorf("%v, %d calls", err, a.n)
	}
}

// A path names a server or a group by what follows /servers/ or /groups/, and ServerPath is the reverse.
func TestCutServer(t *testing.T) {
	for path, want := range map[string][2]string{
		"/mcp":           {"", "/mcp"},
		"/servers/a/mcp": {"a", "/mcp"},
		"/servers/a":     {"a", ""},
		"/groups/a/mcp":  {"groups/a", "/mcp"},
		"/servers//mcp":  {"", "/servers//mcp"},
		"/groups/":       {"", "/groups/"},
		"/serversa/mcp":  {"", "/serversa/mcp"},
	} {
		name, rest := CutServer(path)
		if [2]string{name, rest} != want {
			t.Errorf("%s is %q and %q", path, name, rest)
		}
		if got := ServerPath(name) + rest; got != path {
			t.Errorf("%s became %s", path, got)
		}
	}
}

// retiring is an upstream that another one has replaced.
type retiring struct {
	counted
	next func()
}

func (r *retiring) Do(*Exchange) (Replies, error) { r.n++; r.next(); return nil, ErrRetired }

// An exchange at a target that was replaced meanwhile goes to the one that took its place; if none did it fails.
func TestRouterFollowsAReplacement(t *testing.T) {
	var r *Router
	next, gone := &counted{}, &retiring{next: func() {}}
	old := &retiring{next: func() { r.Swap(NewTable(nil, &Target{"a", next})) }}
	r = NewRouter(NewTable(nil, &Target{"a", old}))
	if _, err := r.DoAt("a", &Exchange{Server: "other"}); err != nil || old.n != 1 || next.n != 1 {
		t.Errorf("%v, %d calls before, %d after", err, old.n, next.n)
	}
	r = NewRouter(NewTable(nil, &Target{"a", gone}))
	if _, err := r.Do(&Exchange{Server: "a"}); err != ErrRetired || gone.n != 1 {
		t.Errorf("%v, %d calls", err, gone.n)
	}
}

// What names no server goes to the unnamed target; who asks for a group that is none is told of groups only.
func TestTable(t *testing.T) {
	a, all := &Target{Name: "a"}, &Target{Name: ""}
	table := NewTable(all, a, &Target{Name: GroupTarget("g")})
	for name, want := range map[string]*Target{"": all, "a": a} {
		if got, err := table.Find(name); err != nil || got != want {
			t.Errorf("%q is %v, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{"groups/x": `no group "x" is configured; there is g`, "x": `no server "x" is configured; there is a`} {
		if _, err := table.Find(name); !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
	for name, want := range map[string]string{"groups/x": "there is none", "": "none is configured or registered", "x": "there is none"} {
		if _, err := NewTable(nil).Find(name); !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
}
