package telemetry

import (
	"context"
	"net/netip"
	"strconv"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Change is a request for a change of Dragoman itself, as over the API of registered servers, whose caller may ask for it.
type Change struct {
	Began   time.Time
	Address netip.Addr
	Caller  proxy.Caller
	Role    string // of the caller
	Action  string // such as "register"
	Server  string // that it concerns
	// Category of tools that it concerns
	Category string
	Status   int    // of the answer; from 400 it was not done
	Why      string // it was not done
}

// registrations is the policy of the trail for a change that was refused.
const registrations = "registrations"

// Changed writes the line of a change. If the queue is full and AuditLogOptions.Block is set, it waits for room until ctx is done. A nil
// trail has no lines.
func (t *AuditLog) Changed(ctx context.Context, c *Change) {
	if t == nil {
		return
	}
	now := time.Now()
	b := wire.AppendText([]byte(`{"invocationId":`), proxy.NewRequestID())
	b = appendMember(b, "principal", c.Caller.Principal)
	if r := c.Caller.Rights; r != nil {
		b = appendMember(b, "credential", r.Kind)
		b = appendMember(b, "user", r.Name)
	}
	b = appendMember(b, "role", c.Role)
	if c.Address.IsValid() {
		b = append(c.Address.AppendTo(append(b, `,"address":"`...)), '"')
	}
	b = appendMember(b, "action", c.Action)
	b = appendMember(b, "server", c.Server)
	b = appendMember(b, "category", c.Category)
	end := ending{ok: c.Status < 400, outcome: "ok", code: c.Status, why: []byte(c.Why)}
	switch {
	case c.Status >= 500:
		end.outcome = "failed"
	case c.Status >= 400:
		end.outcome, end.policy = "refused", registrations
	}
	b = end.append(b)
	b = strconv.AppendInt(append(b, `,"httpStatus":`...), int64(c.Status), 10)
	b = now.UTC().AppendFormat(append(c.Began.UTC().AppendFormat(append(b, `,"startedAt":"`...), auditTime), `","finishedAt":"`...), auditTime)
	b = strconv.AppendInt(append(b, `","durationMs":`...), max(now.Sub(c.Began).Milliseconds(), 0), 10)
	t.Write(ctx, append(b, "}\n"...))
}
