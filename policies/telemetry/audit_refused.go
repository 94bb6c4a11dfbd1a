package telemetry

import (
	"cmp"
	"context"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// refusedLines is how many lines about such requests a second has in the trail, so that who shows no credential cannot fill the disk.
const refusedLines = 100

// Refusals records HTTP requests that are refused before they become exchanges: by the listener, a gate, a transport or an endpoint.
type Refusals struct {
	log   *AuditLog // nil: there is no trail
	count *prometheus.CounterVec

	mu     sync.Mutex
	second int64
	lines  int
}

// NewRefusals returns a recorder that writes to a trail, which may be nil.
func NewRefusals(log *AuditLog, reg prometheus.Registerer) (*Refusals, error) {
	r := policies.NewRegistry(reg)
	g := &Refusals{log: log, count: r.Counter("dragoman_gate_refusals_total", "HTTP requests refused before they became a request of MCP, by policy.", "policy")}
	return g, r.Err()
}

// Refused is an HTTP request that is refused.
type Refused struct {
	Verb, Path []byte         // nil if its head could not be read
	Method     []byte         // of the message in it; nil if none was read
	Arrival    *proxy.Arrival // nil if it was refused before the gates
	Address    netip.Addr     // of the client, if there is no Arrival
	Caller     proxy.Caller
	// Action, Server and Role are as in [Change], of a request for a change; empty: it is none.
	Action, Server, Role string
}

// Record counts a refusal and writes its line. It never waits: a line for which there is no room, or beyond 100 in a second, is counted as
// dropped.
func (g *Refusals) Record(h Refused, err *proxy.Error) {
	policy := cmp.Or(refusals[err.Name], "protocol")
	g.count.WithLabelValues(policy).Inc()
	if g.log == nil {
		return
	}
	now := time.Now()
	if !g.take(now.Unix()) {
		g.log.drop()
		return
	}
	b := wire.AppendText([]byte(`{"invocationId":`), proxy.NewRequestID())
	if at := h.Arrival; at != nil {
		b = appendMember(b, "correlationId", at.AppendID(nil))
		h.Address = at.Address
	}
	if h.Address.IsValid() {
		b = append(h.Address.AppendTo(append(b, `,"address":"`...)), '"')
	}
	b = appendMember(b, "principal", h.Caller.Principal)
	b = appendMember(b, "role", h.Role)
	b = appendMember(b, "action", h.Action)
	b = appendMember(b, "server", h.Server)
	b = appendMember(b, "verb", h.Verb)
	b = appendMember(b, "path", h.Path)
	b = appendMember(b, "method", h.Method)
	b = appendMember(append(b, `,"decision":"denied"`...), "policy", policy)
	b = appendMember(append(b, `,"status":"error"`...), "outcome", err.Name)
	b = strconv.AppendInt(append(b, `,"error":{"code":`...), int64(err.Code), 10)
	b = wire.AppendShown(append(b, `,"message":`...), []byte(err.Message))
	b = now.UTC().AppendFormat(append(b, `},"finishedAt":"`...), auditTime)
	full, cancel := context.WithCancel(context.Background())
	cancel()
	g.log.Write(full, append(b, "\"}\n"...))
}

// take reports whether the second has room for one more line.
func (g *Refusals) take(second int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.second != second {
		g.second, g.lines = second, 0
	}
	g.lines++
	return g.lines <= refusedLines
}
