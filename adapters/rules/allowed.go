package rules

import (
	"fmt"
	"slices"
	"strings"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Allowed is a set of revisions: those that a listener serves, or that may be spoken to a server. The zero value has all
// of them.
type Allowed struct{ modern, legacy []string } // newest first; both nil: all

// Allow makes the set of a list whose entries are "modern", "legacy" or a revision; an empty list gives all. The error
// names an entry that is none of these.
func Allow(entries []string) (Allowed, error) {
	var a Allowed
	for _, v := range entries {
		if v != "modern" && v != "legacy" && !Supported(v) && !KnownLegacy(v) {
			return Allowed{}, fmt.Errorf("era: %q is neither modern, legacy nor a revision", v)
		}
	}
	if len(entries) == 0 {
		return a, nil
	}
	pick := func(all []string, name string) []string {
		out := []string{}
		for _, v := range all {
			if slices.Contains(entries, v) || slices.Contains(entries, name) {
				out = append(out, v)
			}
		}
		return out
	}
	return Allowed{modern: pick(modernVersions, "modern"), legacy: pick(legacyVersions, "legacy")}, nil
}

// And is what both sets have.
func (a Allowed) And(b Allowed) Allowed {
	both := func(x, y []string) []string {
		out := []string{}
		for _, v := range x {
			if slices.Contains(y, v) {
				out = append(out, v)
			}
		}
		return out
	}
	return Allowed{modern: both(a.Modern(), b.Modern()), legacy: both(a.Legacy(), b.Legacy())}
}

// All reports whether nothing is excluded.
func (a Allowed) All() bool {
	return len(a.Modern()) == len(modernVersions) && a.AllLegacy()
}

// AllLegacy reports whether no legacy revision is excluded.
func (a Allowed) AllLegacy() bool { return len(a.Legacy()) == len(legacyVersions) }

// Modern are the modern revisions of the set, newest first.
func (a Allowed) Modern() []string {
	if a.modern == nil {
		return modernVersions
	}
	return a.modern
}

// Legacy are the legacy revisions of the set, newest first.
func (a Allowed) Legacy() []string {
	if a.legacy == nil {
		return legacyVersions
	}
	return a.legacy
}

// Versions are the revisions of the set, newest first.
func (a Allowed) Versions() []string { return slices.Concat(a.Modern(), a.Legacy()) }

// Has reports whether a revision is in the set.
func (a Allowed) Has(version string) bool {
	return slices.Contains(a.Modern(), version) || slices.Contains(a.Legacy(), version)
}

// Settle is the rule of [Settle] within the set: the legacy revision that was asked for, if it is in the set, else the
// newest one that is; empty if the set has no legacy revision.
func (a Allowed) Settle(requested string) string {
	legacy := a.Legacy()
	if slices.Contains(legacy, requested) {
		return requested
	}
	if len(legacy) == 0 {
		return ""
	}
	return legacy[0]
}

// Refusal judges the revision of a single request; nil if it is in the set. Where another modern revision is served, the
// error is the one that names it. Where none is, the error is none of the modern ones: clients that try 2026-07-28 first
// take any of those for a modern server, and everything else for a legacy one, to which they say initialize.
func (a Allowed) Refusal(version string) *proxy.Error {
	switch {
	case slices.Contains(a.Modern(), version):
		return nil
	case len(a.Modern()) > 0:
		return unsupported(proxy.Errf(proxy.BadVersion, "protocol revision %q is not served here", version), a.Modern(), version)
	}
	e := proxy.Errf(proxy.BadVersion, "revision %s is not served here; send initialize with one of %s", version, strings.Join(a.Legacy(), ", "))
	e.Code = proxy.CodeInvalidRequest
	return e
}

// NoHandshake answers initialize where no legacy revision is served: it names the revisions that are (2026-07-28
// versioning, Backward Compatibility).
func NoHandshake(requested string) *proxy.Error {
	e := proxy.Errf(proxy.BadVersion, "initialize is not served here; send single requests of revision %s", strings.Join(modernVersions, ", "))
	return unsupported(e, modernVersions, requested)
}

// unsupported names in a version error the revisions that a request may carry (2026-07-28 basic, Error Codes).
func unsupported(e *proxy.Error, supported []string, requested string) *proxy.Error {
	data := []byte(`{"supported":[`)
	for i, v := range supported {
		if i > 0 {
			data = append(data, ',')
		}
		data = wire.AppendText(data, v)
	}
	e.Data = append(wire.AppendText(append(data, `],"requested":`...), requested), '}')
	return e
}
