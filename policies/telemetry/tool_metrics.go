package telemetry

import (
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies"
	"dragoman/proxy/wire"
)

const (
	maxTools    = 200 // tools of one server with a label of their own
	maxToolName = 128 // longest name with a label, in bytes
)

// tools counts the calls of tools. Labels are names from the server's lists as clients see them, since clients may call
// any name. Until a list was seen, a name is known once a call of it has succeeded. A name that the last complete list lacks makes room for a newer one, and its series are dropped. There is
// no histogram: it would add fourteen series for each tool, and the sum divided by the count shows which tool is slow.
type tools struct {
	calls *prometheus.CounterVec
	time  *prometheus.SummaryVec
	seed  maphash.Seed

	mu     sync.Mutex
	of     atomic.Pointer[map[string]*serverTools] // by server; replaced as a whole
	recent [8]atomic.Pointer[toolSeries]           // the series counted last
}

// serverTools holds the series of one server's tools.
type serverTools struct {
	names atomic.Pointer[map[string]*toolSeries] // replaced as a whole
	other *toolSeries

	listed atomic.Bool // a list was seen

	last uint64          // sum of the result read last
	page map[string]bool // names of the list that is being read, page by page
}

type toolSeries struct {
	server, label string
	gone          atomic.Bool        // the tool has been dropped
	ok            prometheus.Counter // the most frequent outcome
	time          prometheus.Observer
}

func newTools(reg *policies.Registry) *tools {
	t := &tools{seed: maphash.MakeSeed(),
		calls: reg.Counter("dragoman_tool_calls_total",
			"Tool calls by server, tool (other: not listed or, before the first list, never answered) and outcome, as in dragoman_requests_total.", "server", "tool", "outcome"),
		time: prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: "dragoman_tool_duration_seconds",
			Help: "Duration of tool calls, as sum and count."}, []string{"server", "tool"})}
	reg.Add(t.time)
	t.of.Store(&map[string]*serverTools{})
	return t
}

func (t *tools) newSeries(server, label string) *toolSeries {
	return &toolSeries{server: server, label: label, ok: t.calls.WithLabelValues(server, label, "ok"), time: t.time.WithLabelValues(server, label)}
}

// toolsOf returns the tools of a server, and an empty set if it is new. The caller holds mu.
func (t *tools) toolsOf(server string) *serverTools {
	now := *t.of.Load()
	if b := now[server]; b != nil {
		return b
	}
	b := &serverTools{other: t.newSeries(server, otherLabel)}
	b.names.Store(&map[string]*toolSeries{})
	next := maps.Clone(now)
	next[server] = b
	t.of.Store(&next)
	return b
}

// count counts a call that has ended. The name counted last is found without a copy.
func (t *tools) count(server string, name []byte, outcome string, seconds float64) {
	if server == "" {
		return // no server was asked
	}
	s := t.series(server, name)
	if outcome == "ok" && s.label == otherLabel {
		s = t.answered(server, name, s)
	}
	if outcome == "ok" {
		s.ok.Inc()
	} else {
		t.calls.WithLabelValues(server, s.label, outcome).Inc()
	}
	s.time.Observe(seconds)
}

// series returns the series of a tool. A dropped series is in none of the maps; a caller that found it there before
// counts in it for the last time.
func (t *tools) series(server string, name []byte) *toolSeries {
	place := &t.recent[(len(server)+len(name))%len(t.recent)]
	if s := place.Load(); s != nil && s.label == string(name) && s.server == server && !s.gone.Load() {
		return s
	}
	b := (*t.of.Load())[server]
	if b == nil {
		t.mu.Lock()
		b = t.toolsOf(server)
		t.mu.Unlock()
	}
	s := (*b.names.Load())[string(name)]
	if s == nil {
		return b.other
	}
	place.Store(s)
	return s
}

// answered makes a tool known that has answered a call, if no list was seen yet and there is room. It returns the series of the tool,
// or other.
func (t *tools) answered(server string, name []byte, other *toolSeries) *toolSeries {
	b := (*t.of.Load())[server]
	if b == nil || b.listed.Load() || len(*b.names.Load()) >= maxTools || !labelled(name) {
		return other
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	b = t.toolsOf(server)
	now := *b.names.Load()
	if s := now[string(name)]; s != nil {
		return s
	}
	if b.listed.Load() || len(now) >= maxTools {
		return other
	}
	next := maps.Clone(now)
	s := t.newSeries(server, string(name))
	next[s.label] = s
	b.names.Store(&next)
	return s
}

// labelled reports whether a name may be a label.
func labelled(name []byte) bool {
	return len(name) > 0 && len(name) <= maxToolName && string(name) != otherLabel && wire.Shown(name) == string(name)
}

// learn reads the names in a page of a list; first marks the first page. A page that has not changed costs a sum over
// it.
func (t *tools) learn(server string, m *wire.Message, first bool) {
	sum := maphash.Bytes(t.seed, m.Of(m.Result))
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.toolsOf(server)
	b.listed.Store(true)
	if sum == b.last {
		return
	}
	b.last = sum
	if first || b.page == nil {
		b.page = make(map[string]bool)
	}
	for _, entry := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, "tools")) {
		if len(b.page) == maxTools {
			break
		}
		name := wire.Get(m.Raw, entry, "name").Text(m.Raw)
		if labelled(name) {
			b.page[string(name)] = true
		}
	}
	t.settle(server, b)
	if !wire.Get(m.Raw, m.Result, "nextCursor").Present() {
		b.page = nil
	}
}

// settle adds series for the names on the page. Lists may differ between callers, so other names stay while there is
// room.
func (t *tools) settle(server string, b *serverTools) {
	next := maps.Clone(*b.names.Load())
	for name := range b.page {
		if next[name] != nil {
			continue
		}
		if len(next) >= maxTools && !t.makeRoom(server, next, b.page) {
			break
		}
		next[name] = t.newSeries(server, name)
	}
	b.names.Store(&next)
}

// makeRoom drops one tool that is not on the page. It returns false if all are.
func (t *tools) makeRoom(server string, names map[string]*toolSeries, page map[string]bool) bool {
	for name, s := range names {
		if !page[name] {
			s.gone.Store(true)
			delete(names, name)
			labels := prometheus.Labels{"server": server, "tool": name}
			t.calls.DeletePartialMatch(labels)
			t.time.DeletePartialMatch(labels)
			return true
		}
	}
	return false
}

// forget drops the series of a server.
func (t *tools) forget(server string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := maps.Clone(*t.of.Load())
	if b := next[server]; b != nil {
		for _, s := range *b.names.Load() {
			s.gone.Store(true)
		}
	}
	delete(next, server)
	t.of.Store(&next)
	t.calls.DeletePartialMatch(prometheus.Labels{"server": server})
	t.time.DeletePartialMatch(prometheus.Labels{"server": server})
}
