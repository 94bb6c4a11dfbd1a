package config

import (
	"dragoman/internal/config/value"
	"dragoman/policies/access"
	"time"
)

// ThingConfig is what is said of one prompt or resource of an upstream, or of all whose names, or URIs, begin alike.
type ThingConfig struct {
	Name    string // as the server gives it; with a * at its end for all that begin so
	Rename  string // what clients call it; "" (default) is Name
	Enabled bool   // whether it is there; default true
}

// GrantConfig is what one principal may use of an upstream, or, called *, everybody who has no entry of his own. Each list has
// names as the server gives them, and beginnings with a * behind. An empty list of what is allowed allows all that is not denied.
type GrantConfig struct {
	Principal                             string
	Tools, Prompts, Resources             []string
	DenyTools, DenyPrompts, DenyResources []string
}

func (u *Upstream) renames() access.Renames {
	of := func(list []*ThingConfig) map[string]string {
		names := make(map[string]string)
		for _, t := range list {
			if t.Rename != "" && t.Rename != t.Name {
				names[t.Name] = t.Rename
			}
		}
		return names
	}
	return access.Renames{Prompts: of(u.Prompts), Resources: of(u.Resources),
		Tools: Ruled(u, func(t *ToolConfig) (string, bool) { return t.Rename, t.Rename != "" && t.Rename != t.Name })}
}

// Access is what may be used of an upstream.
func (u *Upstream) AccessOptions() access.FilterOptions {
	opt := access.FilterOptions{Server: u.Name, Grants: make(map[string]access.Grant), Renamed: u.renames(),
		Versions: Ruled(u, func(t *ToolConfig) (string, bool) { return t.Version, t.Version != "" })}
	for _, g := range u.Access {
		opt.Grants[g.Principal] = access.Grant{Tools: access.Names{Allow: g.Tools, Deny: g.DenyTools},
			Prompts: access.Names{Allow: g.Prompts, Deny: g.DenyPrompts}, Resources: access.Names{Allow: g.Resources, Deny: g.DenyResources}}
	}
	off := func(list []*ThingConfig) (names []string) {
		for _, t := range list {
			if !t.Enabled {
				names = append(names, t.Name)
			}
		}
		return names
	}
	for _, t := range u.Tools {
		if !t.Enabled {
			opt.Disabled.Tools = append(opt.Disabled.Tools, t.Name)
		}
	}
	opt.Disabled.Prompts, opt.Disabled.Resources = off(u.Prompts), off(u.Resources)
	return opt
}

// ForwardHeader is a header that goes on from clients to an upstream: as From the client sends it, as To the upstream gets it.
// Nothing goes on that is not named so (2026-07-28 authorization, Access Token Privilege Restriction).
type ForwardHeader struct{ From, To string }

// ScopeRule says which scopes a caller must have for something of an upstream.
type ScopeRule struct {
	// About is tool:NAME, prompt:NAME, resource:URI or method:NAME; with a * at its end it stands for all that begin so.
	About string
	// Scopes are needed all, and those of every other rule that is about the same.
	Scopes []string
}

// OAuthConfig is how Dragoman gets tokens for an upstream: the client credentials grant (RFC 6749 §4.4).
type OAuthConfig struct {
	// TokenURL is the authorization server's token endpoint, https, or http on the loopback; "" (default) sends no token.
	TokenURL string
	// ClientID and ClientSecret are Dragoman's at that server.
	ClientID     string
	ClientSecret value.Secret
	// ClientAuth is how it shows them: "basic" (default) or "post".
	ClientAuth string
	// Scopes, Audience and Resource (RFC 8707) are what the token is asked to be for.
	Scopes             []string
	Audience, Resource string
}

// HealthConfig is what becomes of an upstream that fails: how that is noticed, and what is done then.
type HealthConfig struct {
	// CheckURL is asked for with GET to find out whether the upstream is there, http or https; "" (default) asks in the
	// protocol's way, which needs no key.
	CheckURL string
	// CheckInterval is the time between checks, 10 s to 24 h, default 30 s; 0 is never. A child is not checked.
	CheckInterval time.Duration
	// CheckTimeout bounds one check. 100 ms to 60 s, default 5 s.
	CheckTimeout time.Duration
	// BreakerFailures is how many calls within a minute have to fail, and half of all, for the upstream not to be called for
	// BreakerPause, 1 s to 1 h, default 30 s; then BreakerTrials calls, 1 to 100, default 1, show whether it does again. 1 to
	// 1000, default 20; 0 is no breaker.
	BreakerFailures, BreakerTrials int
	BreakerPause                   time.Duration
	// Retries is how often a request is made again that has failed without having had an effect. 0 (none) to 10, default 2.
	Retries int
	// RetryBackoff is the longest pause before the first retry, doubled with each. 1 ms to 5 s, default 100 ms.
	RetryBackoff time.Duration
	// RetryBudget is how many retries there may be, in percent of the requests. 1 to 100, default 20.
	RetryBudget int
	// Fallback names the upstream that new requests and sessions go to while this one is in error; "" (default): none.
	Fallback string
}

// ToolConfig is what is said of one tool of an upstream, or of all whose names begin alike (seed 001 MCPTool, seed 003
// McpToolDefinition).
type ToolConfig struct {
	// Name is the tool's, as the server gives it; with a * at its end it stands for all that begin so.
	Name string
	// Timeout is how long the tool may be silent, in the place of tool_timeout: 1 s to 300 s, or 0 for no such limit.
	// [ToolConfig.Timed] tells whether it was set.
	Timeout time.Duration
	// Concurrency is how many calls of the tool run at a time; 0 (default) is any number.
	Concurrency int
	// Rename is what clients call it; "" (default) is Name.
	Rename string
	// Enabled is whether the tool is there; default true.
	Enabled bool
	// Version is the version of the tool's contract, MAJOR.MINOR.PATCH; "" is not said.
	Version string
	// RateLimit is how many calls of the tool a minute may make, of all clients together; 0 (default) is any number.
	RateLimit int
}

// unsetTime is a time that nobody has set.
const unsetTime time.Duration = -1

// Timed tells whether the tool has a timeout of its own.
func (t *ToolConfig) Timed() bool { return t.Timeout != unsetTime }

// Ruled gives, for all tools of which something is said, what pick finds there.
func Ruled[T any](u *Upstream, pick func(*ToolConfig) (T, bool)) map[string]T {
	of := make(map[string]T)
	for _, t := range u.Tools {
		if v, ok := pick(t); ok {
			of[t.Name] = v
		}
	}
	return of
}
