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

// Allow returns the set of a list whose entries are "modern", "legacy" or a revision; an empty list gives all. The error
// names an entry that is none of these.
func Allow(entries []string) (Allowed, error) {
	for _, v := range entries {
		if v != "modern" && v != "legacy" && !Supported(v) && !KnownLegacy(v) {
			return Allowed{}, fmt.Errorf("era: %q is neither modern, legacy nor a revision", v)
		}
	}
	if len(entries) == 0 {
		return Allowed{}, nil
	}
	pick := func(all []string, era string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(v string) bool { return !slices.Contains(entries, v) && !slices.Contains(entries, era) })
	}
	return Allowed{modern: pick(modernVersions, "modern"), legacy: pick(legacyVersions, "legacy")}, nil
}

// And returns what both sets have.
func (a Allowed) And(b Allowed) Allowed {
	both := func(x, y []string) []string {
		return slices.DeleteFunc(slices.Clone(x), func(v string) bool { return !slices.Contains(y, v) })
	}
	return Allowed{modern: both(a.Modern(), b.Modern()), legacy: both(a.Legacy(), b.Legacy())}
}

// All reports whether nothing is excluded.
func (a Allowed) All() bool {
	return len(a.Modern()) == len(modernVersions) && a.AllLegacy()
}

// AllLegacy reports whether no legacy revision is excluded.
func (a Allowed) AllLegacy() bool { return len(a.Legacy()) == len(legacyVersions) }

// Modern returns the modern revisions of the set, newest first.
func (a Allowed) Modern() []string {
	if a.modern == nil {
		return modernVersions
	}
	return a.modern
}

// Legacy returns the legacy revisions of the set, newest first.
func (a Allowed) Legacy() []string {
	if a.legacy == nil {
		return legacyVersions
	}
	return a.legacy
}

// Versions returns the revisions of the set, newest first.
func (a Allowed) Versions() []string { return slices.Concat(a.Modern(), a.Legacy()) }

// Has reports whether a revision is in the set.
func (a Allowed) Has(version string) bool {
	return slices.Contains(a.Modern(), version) || slices.Contains(a.Legacy(), version)
}

// Settle applies the rule of [Settle] within the set: it returns the legacy revision that was asked for, if it is in the set, else the
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

// Refusal returns the error for the revision of a single request; nil if it is in the set. Where another modern revision is served, the
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

// NoHandshake returns the error for an initialize where no legacy revision is served: it names the revisions that are (2026-07-28
// versioning, Backward Compatibility).
func NoHandshake(requested string) *proxy.Error {
	e := proxy.Errf(proxy.BadVersion, "initialize is not served here; send single requests of revision %s", strings.Join(modernVersions, ", "))
	return unsupported(e, modernVersions, requested)
}

// unsupported adds to a version error the revisions that a request may carry (2026-07-28 basic, Error Codes).
func unsupported(e *proxy.Error, supported []string, requested string) *proxy.Error {
	data := []byte(`{"supported":[`)
	for _, v := range supported {
		data = wire.AppendItem(data, wire.AppendText(nil, v))
	}
	e.Data = append(wire.AppendShown(append(data, `],"requested":`...), requested), '}')
	return e
}
