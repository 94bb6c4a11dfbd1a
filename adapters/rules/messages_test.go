package rules

import (
	"fmt"
	"testing"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Before initialize ping is answered, methods of other revisions are unknown, and the rest is told to wait.
func TestEarly(t *testing.T) {
	for method, want := range map[string]string{
		"ping": `{"jsonrpc":"2.0","id":"x","result":{}}`, "server/discover": proxy.MethodNotFound.Name, "subscriptions/listen": proxy.MethodNotFound.Name,
		"vendor/method": proxy.MethodNotFound.Name, "tools/list": proxy.SessionMissing.Name, "logging/setLevel": proxy.SessionMissing.Name,
	} {
		m, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"x","method":%q}`, method))
		if err != nil {
			t.Fatal(err)
		}
		answer, fault := Early(&m)
		got := string(answer.Raw)
		if fault != nil {
			got = fault.Name
		}
		if got != want {
			t.Errorf("%s: %s, want %s", method, got, want)
		}
	}
}

func TestBelow(t *testing.T) {
	f := func(uri, root string, want bool) {
		t.Helper()
		if got := Below(uri, root); got != want {
			t.Errorf("below(%q, %q) = %v", uri, root, got)
		}
	}
	f("file:///a", "file:///a", true)
	f("file:///a/b", "file:///a", true)
	f("file:///a/b", "file:///a/", true)
	f("file:///a#b", "file:///a", true)
	f("file:///ab", "file:///a", false)
	f("file:///a", "file:///a/b", false)
	f("", "", true)
}
