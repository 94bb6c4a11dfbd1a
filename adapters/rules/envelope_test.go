package rules

import (
	"testing"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

func TestClassify(t *testing.T) {
	f := func(raw, header string, inSession bool, want proxy.Era) {
		t.Helper()
		m, err := wire.Scan([]byte(raw))
		if err != nil {
			t.Fatal(raw, err)
		}
		if got := Classify(&m, header, func() bool { return inSession }); got != want {
			t.Errorf("%s header %q session %v: %v", raw, header, inSession, got)
		}
	}
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	const init = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2026-07-28"}}`
	f(list, "", false, proxy.Legacy)
	f(list, "2025-06-18", true, proxy.Legacy)
	f(list, "2026-07-28", false, proxy.Modern)
	f(list, "2027-01-01", false, proxy.Modern)
	f(list, "1.2.3", true, proxy.Legacy)
	f(list, "v999", false, proxy.Modern)
	f(init, "", false, proxy.Legacy)
	f(init, "2026-07-28", false, proxy.Legacy)
	f(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, "", false, proxy.Modern)
	f(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}}}`, "", false, proxy.Modern)
	f(`{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, "", false, proxy.Modern)
	f(`[`+list+`]`, "2026-07-28", false, proxy.Legacy)
}
