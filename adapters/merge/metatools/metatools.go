// Package metatools has the tools that Dragoman itself offers in the place of long lists: find_tools, describe_tools, call_tool and
// call_read_only_tool. It decides to which clients they are listed, and turns calls through them into calls of the tools that they name.
//
// A call through call_tool becomes the call of the named tool before any policy sees it. All that follows, policies and the audit trail
// included, deals with the real call, so that nothing that a direct call has is lost: questions, progress, logs, cancellation, tasks,
// structured results.
package metatools

import (
	"slices"
	"strings"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Names of the tools.
const (
	Find         = "find_tools"
	Describe     = "describe_tools"
	Call         = "call_tool"
	CallReadOnly = "call_read_only_tool"
)

// Names returns the names of the tools, which no server's tool gets where they are offered.
func Names() []string { return []string{Find, Describe, Call, CallReadOnly} }

// Is reports whether a name is that of one of the tools.
func Is(name []byte) bool {
	switch string(name) {
	case Find, Describe, Call, CallReadOnly:
		return true
	}
	return false
}

// Mode says what a list of tools holds.
type Mode uint8

// The modes. All is the default.
const (
	All    Mode = iota // every tool
	Auto               // as Search once the list is too long, else as All
	Search             // the meta-tools, and those that are always listed
)

// String names the mode as the configuration does.
func (m Mode) String() string { return [...]string{"all", "auto", "search"}[m] }

// Rule is how tools are listed.
type Rule struct {
	Mode   Mode
	Always []string // tools that Search lists as well: SERVER.NAME, where a * at the end stands for any ending
	Tools  int      // the most tools that Auto lists
	Bytes  int      // the most bytes of definitions that Auto lists
}

// Lists reports whether a tool is listed beside the meta-tools.
func (r *Rule) Lists(server, name string) bool {
	return slices.ContainsFunc(r.Always, func(pattern string) bool {
		of, rest, ok := strings.Cut(pattern, ".")
		return ok && of == server && matches(rest, name)
	})
}

// matches reports whether a pattern, which may end with a *, matches a name.
func matches(pattern, name string) bool {
	if head, open := strings.CutSuffix(pattern, "*"); open {
		return strings.HasPrefix(name, head)
	}
	return pattern == name
}

// Special is a rule for some clients: for those to which all conditions apply that it has.
type Special struct {
	Clients []string // names of client programs (clientInfo.name), where a * at the end stands for any ending; empty: all
	Keys    []string // names of API keys; empty: all callers
	Rule
}

// Rules are the rules of an endpoint.
type Rules struct {
	Rule           // of clients that no special rule is about
	Some []Special // the first that applies counts
}

// On reports whether the meta-tools are offered to any client.
func (r *Rules) On() bool {
	return r != nil && (r.Mode != All || slices.ContainsFunc(r.Some, func(s Special) bool { return s.Mode != All }))
}

// For returns the rule of the client of a request; nil: every tool is listed, and there are no meta-tools.
func (r *Rules) For(ex *proxy.Exchange) *Rule {
	if r == nil {
		return nil
	}
	rule := &r.Rule
	for i := range r.Some {
		if r.Some[i].applies(ex) {
			rule = &r.Some[i].Rule
			break
		}
	}
	if rule.Mode == All {
		return nil
	}
	return rule
}

func (s *Special) applies(ex *proxy.Exchange) bool {
	if len(s.Keys) > 0 {
		r := ex.Caller.Rights
		if r == nil || r.Kind != "api_key" || !slices.Contains(s.Keys, r.Name) {
			return false
		}
	}
	if len(s.Clients) == 0 {
		return true
	}
	info := ex.Client.Info
	if info == nil {
		return false
	}
	name := string(wire.Get(info, wire.Whole(info), "name").Text(info))
	return slices.ContainsFunc(s.Clients, func(pattern string) bool { return matches(pattern, name) })
}
