package guardian

import (
	"strings"
	"testing"
)

func TestChildFollows(t *testing.T) {
	for line, want := range map[string]bool{
		"dragoman serve -- npx server":          true,
		"dragoman serve --listen :1 -- x":       true,
		"dragoman stdio -- x":                   true,
		"dragoman serve --config c.toml":        false,
		"dragoman serve http://127.0.0.1:1/mcp": false,
		"dragoman serve":                        false,
		"dragoman conformance -- x":             false,
		"dragoman -- serve":                     false,
		"dragoman":                              false,
	} {
		if got := childFollows(strings.Fields(line)); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
	if childFollows(nil) {
		t.Error("a program without arguments")
	}
}

// What was started before main is taken once, and only by who names no program. Nobody's ends when its socket does.
func TestStartedAhead(t *testing.T) {
	r := newRig(t)
	n, err := embark(self())
	if err != nil {
		t.Fatal(err)
	}
	ch := make(chan *newcomer, 1)
	ch <- n
	ahead.Store(&ch)
	r.sh("exec sleep 40") // by a guardian whose program is named
	if r.guardian() == n.proc.Pid {
		t.Error("a named program takes what was started ahead")
	}
	if got := taken(); got != n {
		t.Fatal(got)
	}
	if got := taken(); got != nil {
		t.Error("it is taken twice")
	}
	_ = n.conn.Close() // nobody wants it
	if state, err := n.proc.Wait(); err != nil || !state.Exited() {
		t.Errorf("%v, %v", state, err)
	}
}
