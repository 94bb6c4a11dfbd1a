package telemetry

import (
	"cmp"
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// gateLines is how many lines about refused heads a second has in the trail, so that who shows no credential cannot fill the disk.
const gateLines = 100

// GateRefusals records requests that a gate refuses by their head, which never become exchanges.
type GateRefusals struct {
	log   *AuditLog // nil: there is no trail
	count *prometheus.CounterVec

	mu     sync.Mutex
	second int64
	lines  int
}

// NewGateRefusals returns a recorder that writes to a trail, which may be nil.
func NewGateRefusals(log *AuditLog, reg prometheus.Registerer) (*GateRefusals, error) {
	r := policies.NewRegistry(reg)
	g := &GateRefusals{log: log, count: r.Counter("dragoman_gate_refusals_total", "HTTP requests refused by their head, before the body is read, by policy.", "policy")}
	return g, r.Err()
}

// RefusedHead is the head of a refused request.
type RefusedHead struct {
	Verb, Path []byte
	Arrival    *proxy.Arrival // may be nil
	Caller     proxy.Caller
}

// Record counts a refusal and writes its line. It never waits: a line for which there is no room, or beyond 100 in a second, is counted as
// dropped.
func (g *GateRefusals) Record(h RefusedHead, err *proxy.Error) {
	policy := cmp.Or(refusals[err.Name], "gate")
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
		if at.Address.IsValid() {
			b = append(at.Address.AppendTo(append(b, `,"address":"`...)), '"')
		}
	}
	b = appendMember(b, "principal", h.Caller.Principal)
	b = appendMember(b, "verb", h.Verb)
	b = appendMember(b, "path", h.Path)
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
func (g *GateRefusals) take(second int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.second != second {
		g.second, g.lines = second, 0
	}
	g.lines++
	return g.lines <= gateLines
}
