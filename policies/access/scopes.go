package access

import (
	"cmp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// ScopeRule lists the scopes that a request needs.
type ScopeRule struct {
	About  string   // tool:NAME, prompt:NAME, resource:URI or method:NAME; a trailing * matches any ending
	Scopes []string // all are required, and those of every other rule that matches
}

// ScopeOptions configures [Scopes] (RFC 6749, 3.3; 2026-07-28 authorization, Scope Challenge Handling).
type ScopeOptions struct {
	Rules map[string][]ScopeRule // by server
	Only  string                 // the server of requests that name none; empty: there are several
	// Challenge returns the WWW-Authenticate value of a refusal.
	Challenge func(err *proxy.Error, path string, scopes []string) string
	Metrics   prometheus.Registerer
}

// Scopes returns the policy that refuses requests whose credential lacks a required scope. It runs before repeated
// requests are answered from memory: the answer to an authorized caller must not reach another one, and a caller that
// returns with more scopes must not get the earlier refusal. Callers without Rights, which no gate has authenticated,
// may do everything. Without rules the policy is nil. The error is that of registering the metric.
func Scopes(opt ScopeOptions) (proxy.Policy, error) {
	needed := false
	for _, rules := range opt.Rules {
		needed = needed || len(rules) > 0
	}
	if !needed {
		return nil, nil //nolint:nilnil // it is off
	}
	reg := policies.NewRegistry(opt.Metrics)
	refused := reg.Counter("dragoman_scope_refusals_total", "Requests refused because the caller's credential lacks a scope, by server.", "server")
	return func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Caller.Rights == nil || ex.Msg.Kind != wire.Request {
				return next(ex)
			}
			server := cmp.Or(ex.Server, opt.Only)
			needed := lacking(ex, opt.Rules[server])
			if needed == nil {
				return next(ex)
			}
			refused.WithLabelValues(server).Inc()
			return nil, opt.refusal(ex, needed)
		}
	}, reg.Err()
}

// refusal returns the error that names the needed scopes. An anonymous caller is asked to authenticate first.
func (opt *ScopeOptions) refusal(ex *proxy.Exchange, needed []string) *proxy.Error {
	list := strings.Join(needed, " ")
	err := proxy.Errf(proxy.InsufficientScope, "this needs the scopes %s; what was shown has not all of them", list)
	if ex.Caller.Rights.Kind == "anonymous" {
		err = proxy.Errf(proxy.Unauthenticated, "this needs the scopes %s; show a credential that has them", list)
	}
	err.Challenge = opt.Challenge(err, endpointPath(ex), needed)
	return err
}

// endpointPath returns the path of the request for its challenge.
func endpointPath(ex *proxy.Exchange) string {
	if ex.Server == "" {
		return "/" + ex.Endpoint()
	}
	return "/servers/" + ex.Server + "/" + ex.Endpoint()
}

// lacking returns all scopes that a request needs if the caller lacks at least one of them, else nil.
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

// every calls do for each member of obj with the given name. Duplicates count, because a server may read another one
// than this proxy does.
func every(raw []byte, obj wire.Span, name string, do func(wire.Span)) {
	for key, value := range wire.Members(raw, obj) {
		if key.Is(raw, name) {
			do(value)
		}
	}
}

// about reports whether the rule applies to a name of a kind such as "tool:".
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
