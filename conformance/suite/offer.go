package suite

import (
	"slices"
	"strings"

	"dragoman/conformance/peer"
)

// Offer holds what a server offers at a face and revision.
type Offer struct {
	Face         peer.Face
	Revision     string
	Server       string // its name and version
	Capabilities peer.Object
	Versions     []string // of server/discover
	Tools        []peer.Object
	Prompts      []peer.Object
	Resources    []peer.Object
	Session      bool // legacy HTTP: it has session ids
	Listens      bool // legacy HTTP: it opens GET streams
}

// Tool returns a tool by name; nil if there is none.
func (o *Offer) Tool(name string) peer.Object { return find(o.Tools, "name", name) }

// Capability reports whether a capability is declared, by its path, such as "resources.subscribe". The last member of a longer path counts
// unless it is false.
func (o *Offer) Capability(path string) bool {
	v := peer.Get(o.Capabilities, strings.Split(path, ".")...)
	return v != nil && v != false
}

// Fixture reports whether the server has the tools of the everything fixture, which deeper checks need.
func (o *Offer) Fixture() bool { return o.Tool("test_simple_text") != nil }

func find(in []peer.Object, member, value string) peer.Object {
	for _, x := range in {
		if x[member] == value {
			return x
		}
	}
	return nil
}

// missing describes the first need that is not met; "" if all are.
func (o *Offer) missing(needs []Need) string {
	i := slices.IndexFunc(needs, func(n Need) bool { return !o.meets(n) })
	if i < 0 {
		return ""
	}
	n := string(needs[i])
	kind, name, named := strings.Cut(n, ":")
	switch {
	case named:
		return "the server has no " + kind + " " + name
	case n == string(NeedsATool), n == string(NeedsAResource), n == string(NeedsSession):
		return "the server has not " + n
	}
	return "the server does not declare " + n
}

func (o *Offer) meets(n Need) bool {
	switch n {
	case NeedsATool:
		return len(o.Tools) > 0
	case NeedsAResource:
		return len(o.Resources) > 0
	case NeedsSession:
		return o.Session
	}
	kind, name, named := strings.Cut(string(n), ":")
	if !named {
		return o.Capability(kind)
	}
	switch kind {
	case "extension":
		return peer.Get(o.Capabilities, "extensions", name) != nil
	case "tool":
		return o.Tool(name) != nil
	case "prompt":
		return find(o.Prompts, "name", name) != nil
	}
	return find(o.Resources, "uri", name) != nil
}
