package probe

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"dragoman/adapters/era/work"
	"dragoman/adapters/mux"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// refusing is a server that answers server/discover with -32022 and a list, and takes a handshake.
type refusing struct {
	supported string // raw JSON

	mu   sync.Mutex
	seen []string
}

func (s *refusing) dial(_ context.Context, sink transport.Sink) (transport.Link, error) {
	var x *mux.Mux
	x = mux.New(proxy.Modern, func(_ context.Context, _ uint64, raw []byte) error {
		m, err := wire.Scan(raw)
		if err != nil || m.Kind != wire.Request {
			return err
		}
		s.mu.Lock()
		s.seen = append(s.seen, string(m.Text(m.Method)))
		s.mu.Unlock()
		answer := `"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`
		if m.Is("server/discover") {
			answer = `"error":{"code":-32022,"message":"unsupported","data":{"supported":` + s.supported + `,"requested":"2026-07-28"}}}`
		}
		return x.Deliver([]byte(`{"jsonrpc":"2.0","id":` + string(m.Of(m.ID)) + `,` + answer))
	}, sink)
	return refusingLink{x}, nil
}

type refusingLink struct{ *mux.Mux }

func (refusingLink) Close() error { return nil }

// A server that names only unknown revisions is modern (2026-07-28 stdio, Backward Compatibility): it gets no initialize, and the error
// names the revisions of both sides. Any other list leads to the handshake as before.
func TestServerOfUnknownRevisions(t *testing.T) {
	for list, foreign := range map[string]bool{
		`["2199-01-01"]`:              true,
		`["2199-01-01","2031-05-05"]`: true,
		`["2199-01-01","2025-11-25"]`: false,
		`["2025-11-25"]`:              false, // a stateful server of the Go SDK
		`["2199-01-01","2024-10-07"]`: false, // legacy, although unknown
		`[]`:                          false,
		`"2199-01-01"`:                false,
		`[7]`:                         false,
	} {
		s := &refusing{supported: list}
		group := work.New(nil)
		k := NewKeeper(&transport.Server{Wires: transport.Wires{Legacy: s.dial, Modern: s.dial, Stdio: true}, Self: []byte(`{}`),
			Timeout: 10 * time.Second, StartTimeout: time.Minute}, Options{}, new(lone), group)
		v, err := k.Profile(t.Context())
		if cerr := end(group, k.links.(*lone)); cerr != nil {
			t.Error(cerr)
		}
		s.mu.Lock()
		seen := strings.Join(s.seen, " ")
		s.mu.Unlock()
		if !foreign {
			if err != nil || !v.Legacy || !strings.Contains(seen, "initialize") {
				t.Errorf("%s: %+v, %v; it was sent %s", list, v, err, seen)
			}
			continue
		}
		var e *proxy.Error
		if !errors.As(err, &e) || e.Name != proxy.EraUnknown.Name || seen != "server/discover" {
			t.Errorf("%s: %+v, %v; it was sent %s", list, v, err, seen)
			continue
		}
		for _, part := range []string{`"2199-01-01"`, "2026-07-28, 2025-11-25", "upstreams.NAME.era"} {
			if !strings.Contains(e.Message, part) {
				t.Errorf("%s: no %s in %s", list, part, e.Message)
			}
		}
	}
}
