package access

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// ScopeRule says what a caller needs for something.
type ScopeRule struct {
	About  string   // tool:NAME, prompt:NAME, resource:URI or method:NAME; a * at the end stands for any ending
	Scopes []string // all are needed, and those of other rules that are about the same
}

// ScopeOptions say what needs scopes (RFC 6749, 3.3; 2026-07-28 authorization, Scope Challenge Handling).
type ScopeOptions struct {
	Rules map[string][]ScopeRule // by server
	Only  string                 // the server that is meant where a request names none; empty: there are several
	// Challenge gives the WWW-Authenticate of a refusal; nil: there is none.
	Challenge func(err *proxy.Error, path string, scopes []string) string
	Metrics   prometheus.Registerer // nil: nothing is counted
}

// Scopes lets pass what the caller's credential is good for. It stands before repeats are answered: what somebody was told who may
// is not for somebody who may not, and who comes again with more rights is not to be told what he was told without. Without rules
// it is nil. Callers whom nobody asked who they are may everything.
func Scopes(opt ScopeOptions) (proxy.Policy, error) {
	any := false
	for _, rules := range opt.Rules {
		any = any || len(rules) > 0
	}
	if !any {
		return nil, nil //nolint:nilnil // it is off
	}
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dragoman_scope_refusals_total",
		Help: "Requests refused because the caller's credential lacks a scope, by server."}, []string{"server"})
	if opt.Metrics != nil {
		var err error
		if refused, err = policies.Register(opt.Metrics, refused); err != nil {
			return nil, err
		}
	}
	return func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Caller.Rights == nil || ex.Msg.Kind != wire.Request {
				return next(ex)
			}
			server := ex.Server
			if server == "" {
				server = opt.Only
			}
			needed := lacking(ex, opt.Rules[server])
			if needed == nil {
				return next(ex)
			}
			refused.WithLabelValues(server).Inc()
			return nil, opt.refusal(ex, needed)
		}
	}, nil
}

// refusal says which scopes are needed. Who has shown nothing is to do that first.
func (opt *ScopeOptions) refusal(ex *proxy.Exchange, needed []string) *proxy.Error {
	list := strings.Join(needed, " ")
	err := proxy.Errf(proxy.InsufficientScope, "this needs the scopes %s; what was shown has not all of them", list)
	if ex.Caller.Rights.Kind == "anonymous" {
		err = proxy.Errf(proxy.Unauthenticated, "this needs the scopes %s; show a credential that has them", list)
	}
	if opt.Challenge != nil {
		err.Challenge = opt.Challenge(err, endpointPath(ex), needed)
	}
	return err
}

// endpointPath is the path that the client asks by, as its challenge needs it.
func endpointPath(ex *proxy.Exchange) string {
	if ex.Server == "" {
		return "/" + ex.Endpoint()
	}
	return "/servers/" + ex.Server + "/" + ex.Endpoint()
}

// lacking gives all scopes that a request needs, if the caller lacks one; nil if not.
func lacking(ex *proxy.Exchange, rules []ScopeRule) (needed []string) {
	lacks := false
	need := func(kind string, name []byte) {
		for i := range rules {
			if !rules[i].about(kind, name) {
				continue
			}
			for _, scope := range rules[i].Scopes {
				lacks = lacks || !ex.Caller.Has(scope)
				if !slices.Contains(needed, scope) {
					needed = append(needed, scope)
				}
			}
		}
	}
	m := &ex.Msg
	need("method:", m.Text(m.Method))
	switch {
	case m.Is("tools/call"):
		need("tool:", m.Text(m.Name))
	case m.Is("prompts/get"):
		need("prompt:", m.Text(m.Name))
	case m.Is("resources/read"), m.Is("resources/subscribe"), m.Is("resources/unsubscribe"):
		need("resource:", m.Text(m.URI))
	case m.Is("completion/complete"):
		every(m.Raw, m.Params, "ref", func(ref wire.Span) {
			every(m.Raw, ref, "name", func(s wire.Span) { need("prompt:", s.Text(m.Raw)) })
			every(m.Raw, ref, "uri", func(s wire.Span) { need("resource:", s.Text(m.Raw)) })
		})
	case m.Is("subscriptions/listen"):
		every(m.Raw, m.Notifications, "resourceSubscriptions", func(list wire.Span) {
			for _, s := range wire.Items(m.Raw, list) {
				need("resource:", s.Text(m.Raw))
			}
		})
	}
	if !lacks {
		return nil
	}
	return needed
}

// every calls do with each member of a name in an object: a server may read another of several than we would.
func every(raw []byte, obj wire.Span, name string, do func(wire.Span)) {
	for key, value := range wire.Members(raw, obj) {
		if key.Is(raw, name) {
			do(value)
		}
	}
}

// about tells whether the rule is about something of a kind: "tool:" and the like.
func (r *ScopeRule) about(kind string, name []byte) bool {
	pattern, ok := strings.CutPrefix(r.About, kind)
	if !ok || len(name) == 0 {
		return false
	}
	if prefix, open := strings.CutSuffix(pattern, "*"); open {
		return len(name) >= len(prefix) && string(name[:len(prefix)]) == prefix
	}
	return string(name) == pattern
}
