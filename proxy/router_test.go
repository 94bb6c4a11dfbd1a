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
