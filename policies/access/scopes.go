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
	Only  string                 // the server of requests that name none; empty: several are one
	// Challenge returns the WWW-Authenticate value of a refusal.
	Challenge func(err *proxy.Error, path string, scopes []string) string
	Metrics   prometheus.Registerer
}

// ScopePolicy refuses requests whose credential lacks a required scope, and drops notices about resources that need one.
type ScopePolicy struct {
	opt     ScopeOptions
	of      map[string]*scopeTable // by server
	refused *prometheus.CounterVec
}

// Scopes returns the scope policy; without rules nil, which is switched off. The error is that of registering the metric.
func Scopes(opt ScopeOptions) (*ScopePolicy, error) {
	needed := false
	for _, rules := range opt.Rules {
		needed = needed || len(rules) > 0
	}
	if !needed {
		return nil, nil //nolint:nilnil // it is off
	}
	reg := policies.NewRegistry(opt.Metrics)
	s := &ScopePolicy{opt: opt, of: make(map[string]*scopeTable, len(opt.Rules)),
		refused: reg.Counter("dragoman_scope_refusals_total", "Requests refused because the caller's credential lacks a scope, by server.", "server")}
	for server, rules := range opt.Rules {
		s.of[server] = newScopeTable(rules)
	}
	return s, reg.Err()
}

// Policy returns the policy; nil for a nil ScopePolicy. It runs before repeated requests are answered from memory: the answer to an
// authorized caller must not reach another one, and a caller that returns with more scopes must not get the earlier refusal. Callers
// without Rights, which no gate has authenticated, may do everything.
func (s *ScopePolicy) Policy() proxy.Policy {
	return s.policy(func(ex *proxy.Exchange) string { return cmp.Or(ex.Server, s.opt.Only) }, true)
}

// At is the Policy of requests that name no server, or a group, once it is known that they are for the given server.
func (s *ScopePolicy) At(server string) proxy.Policy {
	return s.policy(func(*proxy.Exchange) string { return server }, true)
}

// Shown is At for requests that nobody has made, which find out what a caller may see: it judges them alike, and counts no refusal.
func (s *ScopePolicy) Shown(server string) proxy.Policy {
	return s.policy(func(*proxy.Exchange) string { return server }, false)
}

func (s *ScopePolicy) policy(serverOf func(*proxy.Exchange) string, counts bool) proxy.Policy {
	if s == nil {
		return nil
	}
	return func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Caller.Rights == nil || ex.Msg.Kind != wire.Request {
				return next(ex)
			}
			server := serverOf(ex)
			needed, err := s.of[server].lacking(ex)
			if needed != nil || err != nil {
				if counts {
					s.refused.WithLabelValues(server).Inc()
				}
				if err != nil {
					ex.RefusedBy = "scopes"
					return nil, err
				}
				return nil, s.opt.refusal(ex, needed)
			}
			replies, err := next(ex)
			if err == nil && s.of[server].aboutResources() {
				replies = &scoped{replies, s, ex, server}
			}
			return replies, err
		}
	}
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
	return proxy.ServerPath(ex.Server) + "/" + ex.Endpoint()
}

// scopeKinds are the kinds of things that rules are about, as their prefixes name them.
const (
	scopeTool     = "tool:"
	scopePrompt   = "prompt:"
	scopeResource = "resource:"
	scopeMethod   = "method:"
)

// scopeTable holds the rules of one server, by the kind that they are about. A nil table has none.
type scopeTable struct {
	rules map[string][]scopeRule
}

// scopeRule is a compiled [ScopeRule]. It holds for every spelling that a server may take for what it names.
type scopeRule struct {
	about  selector
	scopes []string
}

// aboutResources reports whether a rule is about resources.
func (t *scopeTable) aboutResources() bool { return t != nil && len(t.rules[scopeResource]) > 0 }

func newScopeTable(rules []ScopeRule) *scopeTable {
	t := &scopeTable{rules: map[string][]scopeRule{}}
	for i := range rules {
		for _, kind := range []string{scopeTool, scopePrompt, scopeResource, scopeMethod} {
			pattern, ok := strings.CutPrefix(rules[i].About, kind)
			if !ok {
				continue
			}
			k := toolThing
			if kind == scopeResource {
				k = resourceThing
			}
			t.rules[kind] = append(t.rules[kind], scopeRule{newSelector(k, []string{pattern}), rules[i].Scopes})
		}
	}
	return t
}

// lacking returns all scopes that a request needs if the caller lacks at least one of them, else nil. The error refuses a
// request of which it is not certain what it needs.
func (t *scopeTable) lacking(ex *proxy.Exchange) (needed []string, err error) {
	if t == nil {
		return nil, nil
	}
	m := &ex.Msg
	n := need{table: t, caller: ex.Caller, m: m}
	n.name(scopeMethod, m.Method)
	switch {
	case m.Is("tools/call"):
		n.name(scopeTool, m.Name)
	case m.Is("prompts/get"):
		n.name(scopePrompt, m.Name)
	case m.Is("resources/read"), m.Is("resources/subscribe"), m.Is("resources/unsubscribe"), m.Is("skills/get"), m.Is("resources/directory/read"):
		n.name(scopeResource, m.URI)
	case m.Is("completion/complete"):
		name, uri, err := reference(m)
		n.fail(err)
		n.name(scopePrompt, name)
		n.name(scopeResource, uri)
	case m.Is("subscriptions/listen"):
		list, err := subscribed(m)
		n.fail(err)
		for _, uri := range wire.Items(m.Raw, list) {
			n.name(scopeResource, uri)
		}
	default:
		n.fail(checkMethod(m))
	}
	if n.err != nil || !n.lacks {
		return nil, n.err
	}
	return n.scopes, nil
}

// need gathers the scopes that a request needs.
type need struct {
	table  *scopeTable
	caller proxy.Caller
	m      *wire.Message
	scopes []string
	lacks  bool // the caller lacks one of them
	err    error
}

func (n *need) fail(err error) {
	if n.err == nil {
		n.err = err
	}
}

// name adds the scopes for the name at s.
func (n *need) name(kind string, s wire.Span) {
	rules := n.table.rules[kind]
	if len(rules) == 0 || !s.Present() || n.err != nil {
		return
	}
	k := toolThing
	if kind == scopeResource {
		k = resourceThing
	}
	if !s.IsString(n.m.Raw) {
		n.fail(errNoString(k))
		return
	}
	what, err := newSubject(k, n.m.Text(s))
	if err != nil {
		n.fail(err)
		return
	}
	for i := range rules {
		if !rules[i].about.covers(&what) {
			continue
		}
		for _, scope := range rules[i].scopes {
			n.lacks = n.lacks || !n.caller.Has(scope)
			if !slices.Contains(n.scopes, scope) {
				n.scopes = append(n.scopes, scope)
			}
		}
	}
}
