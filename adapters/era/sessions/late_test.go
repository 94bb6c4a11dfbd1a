package sessions

import (
	"fmt"
	"strings"
	"testing"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/proxy"
)

// What is only suspected to ask late is acquitted; what was seen to is not, even if it is suspected again.
func TestLateAskers(t *testing.T) {
	var l lateAskers
	l.acquit("a") // unknown
	l.add("a", false)
	l.add("b", true)
	l.add("b", false)
	l.add("c", false)
	l.add("c", true)
	for _, about := range []string{"a", "b", "c"} {
		if !l.has(about) {
			t.Errorf("%s is forgotten", about)
		}
		l.acquit(about)
		if want := about != "a"; l.has(about) != want {
			t.Errorf("%s is acquitted: %v", about, want)
		}
	}
	if l.has("d") {
		t.Error("an unknown name is known")
	}
}

// The names are bounded in length and number.
func TestLateAskersAreBounded(t *testing.T) {
	var l lateAskers
	for about, want := range map[string]bool{"": false, strings.Repeat("n", lateName): true, strings.Repeat("n", lateName+1): false} {
		if l.add(about, true); l.has(about) != want {
			t.Errorf("%d bytes: kept %v", len(about), !want)
		}
	}
	for i := range lateMost {
		l.add(fmt.Sprint(i), true)
	}
	if len(l.all) != lateMost {
		t.Errorf("%d names are kept", len(l.all))
	}
}

// Calls are told apart by their method and the tool, prompt or resource that they name.
func TestAbout(t *testing.T) {
	for raw, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`:                "tools/call a",
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a:b"}}`:           "resources/read a:b",
		`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"a","uri":"other"}}`: "prompts/get a",
	} {
		if got := about(&proxy.Exchange{Msg: *fakeserver.Scan(t, raw)}); got != want {
			t.Errorf("%s: %q", raw, got)
		}
	}
}
