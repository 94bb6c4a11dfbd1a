package resilience

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

const (
	hintsMost  = 4096            // tools that are remembered
	hintsTime  = 3 * time.Second // timeout for listing the tools
	hintsPause = time.Minute     // minimum time between two such listings
	hintName   = 256             // longest remembered name, in bytes
)

// Hints remembers the annotations of an upstream's tools (ToolAnnotations: readOnlyHint, idempotentHint). It reads them
// from the lists that pass, and lists the tools itself when a failed call needs them.
type Hints struct {
	list func(ctx context.Context, ex *proxy.Exchange, see func(m *wire.Message))

	mu     sync.Mutex
	tools  *lru.Cache[string, bool]
	seed   maphash.Seed
	last   [2]uint64 // sums of the two pages read last: most lists repeat
	nextAt int
	asked  time.Time
}

// NewHints returns an empty memory. list lists the upstream's tools on behalf of an exchange and calls see for each
// result; nil: the tools are never listed.
func NewHints(list func(ctx context.Context, ex *proxy.Exchange, see func(m *wire.Message))) *Hints {
	tools, _ := lru.New[string, bool](hintsMost) // fails only for a size below 1
	return &Hints{list: list, tools: tools, seed: maphash.MakeSeed()}
}

// Learn reads the annotations in a result of tools/list. A nil Hints ignores them.
func (h *Hints) Learn(m *wire.Message) {
	if h == nil {
		return
	}
	sum := maphash.Bytes(h.seed, m.Of(m.Result))
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last[0] == sum || h.last[1] == sum {
		return
	}
	h.last[h.nextAt], h.nextAt = sum, 1-h.nextAt
	for _, tool := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, "tools")) {
		name := wire.Get(m.Raw, tool, "name").Text(m.Raw)
		if len(name) == 0 || len(name) > hintName {
			continue
		}
		said := func(hint string) bool {
			return string(wire.Path(m.Raw, tool, "annotations", hint).Of(m.Raw)) == "true"
		}
		h.tools.Add(string(name), said("readOnlyHint") || said("idempotentHint"))
	}
}

// Harmless reports whether the annotations of the tool that an exchange calls allow it to run twice. It may list the
// tools first, for hintsTime at most. A nil Hints knows no tool.
func (h *Hints) Harmless(ex *proxy.Exchange) bool {
	if h == nil {
		return false
	}
	name := string(ex.Msg.Text(ex.Msg.Name))
	h.mu.Lock()
	harmless, known := h.tools.Get(name)
	ask := !known && h.list != nil && len(name) <= hintName && (h.asked.IsZero() || time.Since(h.asked) >= hintsPause)
	if ask {
		h.asked = time.Now()
	}
	h.mu.Unlock()
	if !ask {
		return harmless
	}
	ctx, done := context.WithTimeout(ex, hintsTime)
	defer done()
	h.list(ctx, ex, h.Learn)
	h.mu.Lock()
	defer h.mu.Unlock()
	harmless, _ = h.tools.Get(name)
	return harmless
}
