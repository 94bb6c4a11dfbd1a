package suite

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"dragoman/conformance/peer"
)

// The answers to raw requests are validated, also bodies that no check reads.
func TestMessagesOfRawRequests(t *testing.T) {
	meta := `"params":{"_meta":{"` + peer.MetaVersion + `":"` + peer.R2607 + `"}}`
	answers := map[string]string{} // by body
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answers[string(raw)])
	}))
	t.Cleanup(srv.Close)
	h := peer.NewHTTP(srv.URL, nil, nil)
	t.Cleanup(h.Close)
	type seen struct{ raw, revision, answers string }
	f := func(face peer.Face, revision, body, answer string, want ...seen) {
		t.Helper()
		answers[body] = answer
		var got []seen
		trial := &Trial{Target: &peer.Target{HTTP: h}, Face: face, Revision: revision, ctx: t.Context(), judge: func(raw, revision, answers string) {
			got = append(got, seen{raw, revision, answers})
		}}
		trial.Send(peer.Request{Body: body}) // nobody reads it
		trial.end()
		if !slices.Equal(got, want) {
			t.Errorf("%s %s: %+v", face, body, got)
		}
	}
	const result, failure = `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"error":{}}`
	named := `{"jsonrpc":"2.0","id":1,"method":"tools/list",` + meta + `}`
	f(peer.ModernHTTP, peer.R2607, named, result, seen{result, peer.R2607, "tools/list"})
	unnamed := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	f(peer.ModernHTTP, peer.R2607, unnamed, result) // as a server of both eras answers it
	f(peer.ModernHTTP, peer.R2607, unnamed, failure, seen{failure, peer.R2607, "tools/list"})
	f(peer.LegacyHTTP, peer.R2506, unnamed, result, seen{result, peer.R2506, "tools/list"})
	f(peer.LegacyHTTP, peer.R2506, unnamed, `{"error":"of another kind"}`, seen{`{"error":"of another kind"}`, peer.R2506, ""})
	f(peer.LegacyHTTP, peer.R2506, unnamed, "no message")
	f(peer.REST, "", unnamed, result)
	agreed := `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}`
	f(peer.LegacyHTTP, peer.R2503, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`, agreed, seen{agreed, peer.R2511, "initialize"})
	two := `{"jsonrpc":"2.0","id":"2","result":{}}`
	f(peer.LegacyHTTP, peer.R2503, `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":"2","method":"tools/list"}]`, "["+result+","+two+"]",
		seen{result, peer.R2503, "ping"}, seen{two, peer.R2503, "tools/list"})
	twice := `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":1,"method":"tools/list"}]`
	f(peer.LegacyHTTP, peer.R2503, twice, result, seen{result, peer.R2503, ""})
}
