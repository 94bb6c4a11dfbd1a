package era

import (
	"testing"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Cached metadata is not mixed up between clients whose metadata has equal length, nor between log levels and methods.
func TestCachedMetadata(t *testing.T) {
	var x clientCache
	clients := []proxy.Client{
		{Version: rules.LegacyVersion, Info: []byte(`{"name":"a"}`), Caps: []byte(`{"roots":{}}`)},
		{Version: rules.LegacyVersion, Info: []byte(`{"name":"b"}`), Caps: []byte(`{"roots":{}}`)},
		{Version: rules.LegacyVersion, Info: []byte(`{"name":"a"}`), Caps: []byte(`{"other":1}`)},
		{Version: "2025-06-18", Info: []byte(`{"name":"a"}`), Caps: []byte(`{"elicitation":{"form":{}}}`)},
		{Version: rules.LegacyVersion, Info: []byte(`{"name":"a"}`), Caps: []byte(`{"roots":{}}`), LogLevel: "info"},
		{Version: rules.LegacyVersion},
	}
	for round := range 2 {
		for i := range clients {
			for _, tasks := range []bool{false, true} {
				want := `,"_meta":` + string(wire.Object(clientMeta(&clients[i], tasks)))
				if got := string(x.of(&clients[i], tasks, metaMember)); got != want {
					t.Errorf("round %d, client %d: %s, want %s", round, i, got, want)
				}
			}
		}
	}
	borrowed := []byte(`{"name":"c"}`)
	c := proxy.Client{Version: rules.LegacyVersion, Info: borrowed}
	first := string(x.of(&c, false, metaMember))
	copy(borrowed, `{"name":"d"}`)
	if second := string(x.of(&c, false, metaMember)); first == second {
		t.Errorf("%s, then %s", first, second)
	}
}

func TestClientMetadataIsAdded(t *testing.T) {
	f := func(client proxy.Client, in, want string) {
		t.Helper()
		ex := &proxy.Exchange{Msg: *fakeserver.Scan(t, in), Client: client}
		(&Upstream{}).addClientMeta(ex)
		if got := written(t, &ex.Msg); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
	const stamp = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`
	f(proxy.Client{}, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{`+stamp+`}}}`)
	f(proxy.Client{Info: []byte(`{"name":"c"}`), LogLevel: "warning", Caps: []byte(`{"roots":{"listChanged":true},"tasks":{},"extensions":{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{}}}`)},
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n","task":{"ttl":1},"_meta":{"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"progressToken":9}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n","_meta":{"io.modelcontextprotocol/clientCapabilities":{"roots":{},"extensions":{"io.modelcontextprotocol/ui":{}}},"progressToken":9,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c"},"io.modelcontextprotocol/logLevel":"warning"},"arguments":{}}}`)
}

// written applies the edits and checks that the outcome is still a message.
func written(t *testing.T, m *wire.Message) string {
	t.Helper()
	out := m.Append(nil)
	if _, err := wire.Scan(out); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return string(out)
}
