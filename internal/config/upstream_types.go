package config

import (
	"time"

	"dragoman/internal/config/value"
	"dragoman/policies/access"
)

// ThingConfig holds the settings of one prompt or resource of an upstream, or of all whose names or URIs begin alike.
type ThingConfig struct {
	Name    string // as the server gives it; a trailing * matches any ending
	Rename  string // what clients call it; "" (default) is Name
	Enabled bool   // whether clients can see and use it; default true
}

// GrantConfig is what one principal may use of an upstream. The principal "*" stands for all without an entry of their
// own. Lists have names as the server gives them, or beginnings of names followed by a *. If the list of what is
// allowed is empty, everything is allowed that is not denied.
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

// AccessOptions returns the options of the filter for the upstream.
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

// ForwardHeader is a header of clients that is passed on to an upstream: clients send it as From, the upstream gets it
// as To. Headers without an entry are not passed on (2026-07-28 authorization, Access Token Privilege Restriction).
type ForwardHeader struct{ From, To string }

// ScopeRule says which scopes a caller must have for something of an upstream.
type ScopeRule struct {
	// About is tool:NAME, prompt:NAME, resource:URI or method:NAME; a trailing * matches any ending.
	About string
	// Scopes are all required, and those of every other rule that matches.
	Scopes []string
}

// OAuthConfig is how Dragoman gets tokens for an upstream: the client credentials grant (RFC 6749 §4.4).
type OAuthConfig struct {
	// TokenURL is the authorization server's token endpoint, https, or http on the loopback; "" (default) sends no token.
	TokenURL string
	// ClientID and ClientSecret are Dragoman's credentials at that server.
	ClientID     string
	ClientSecret value.Secret
	// ClientAuth is how they are sent: "basic" (default) in a header, or "post" in the body.
	ClientAuth string
	// Scopes, Audience and Resource (RFC 8707) are requested for the token.
	Scopes             []string
	Audience, Resource string
}

// HealthConfig says how failures of an upstream are noticed, and what is done about them.
type HealthConfig struct {
	// CheckURL is requested with GET to check the upstream, http or https; "" (default) checks by the protocol.
	CheckURL string
	// CheckInterval is the time between checks, 10 s to 24 h, default 30 s; 0 is never. A child is not checked.
	CheckInterval time.Duration
	// CheckTimeout bounds one check. 100 ms to 60 s, default 5 s.
	CheckTimeout time.Duration
	// BreakerFailures is how many calls within a minute, and half of all, must fail for the upstream not to be called
	// for BreakerPause. Then BreakerTrials calls test whether it answers again. BreakerFailures is 1 to 1000, default
	// 20, or 0 for no breaker; BreakerPause 1 s to 1 h, default 30 s; BreakerTrials 1 to 100, default 1.
	BreakerFailures, BreakerTrials int
	BreakerPause                   time.Duration
	// Retries is how often a failed request without effects is repeated. 0 (none) to 10, default 2.
	Retries int
	// RetryBackoff is the longest pause before the first retry, doubled with each. 1 ms to 5 s, default 100 ms.
	RetryBackoff time.Duration
	// RetryBudget bounds the retries, in percent of the requests. 1 to 100, default 20.
	RetryBudget int
	// Fallback names the upstream that gets new requests and sessions while this one is in error; "" (default): none.
	Fallback string
}

// ToolConfig holds the settings of one tool of an upstream, or of all whose names begin alike (seed 001 MCPTool, seed
// 003 McpToolDefinition).
type ToolConfig struct {
	// Name is the tool's, as the server gives it; a trailing * matches any ending.
	Name string
	// Timeout is how long the tool may be silent, instead of tool_timeout: 1 s to 300 s, or 0 for no such limit.
	// [ToolConfig.Timed] reports whether it was set.
	Timeout time.Duration
	// Concurrency is how many calls of the tool run at a time; 0 (default) is any number.
	Concurrency int
	// Rename is what clients call it; "" (default) is Name.
	Rename string
	// Enabled says whether clients can see and use the tool; default true.
	Enabled bool
	// Version is the version of the tool's contract, MAJOR.MINOR.PATCH; "": not stated.
	Version string
	// RateLimit bounds the calls of the tool in a minute, of all clients together; 0 (default) is no limit.
	RateLimit int
}

// unsetTime marks a time that was not set.
const unsetTime time.Duration = -1

// Timed reports whether the tool has a timeout of its own.
func (t *ToolConfig) Timed() bool { return t.Timeout != unsetTime }

// Ruled returns what pick finds for the configured tools, by name.
func Ruled[T any](u *Upstream, pick func(*ToolConfig) (T, bool)) map[string]T {
	of := make(map[string]T)
	for _, t := range u.Tools {
		if v, ok := pick(t); ok {
			of[t.Name] = v
		}
	}
	return of
}
