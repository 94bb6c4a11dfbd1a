package access

import (
	"bytes"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// named is a name in a request or a list, read so that rules can judge it.
type named struct {
	name []byte        // of a tool, prompt or method
	uri  *policies.URI // of a resource
}

// newSubject reads a name. It returns an error for a URI that servers may read differently.
func newSubject(k thing, name []byte) (n named, err error) {
	if k != resourceThing {
		return named{name: name}, nil
	}
	if n.uri, err = policies.ReadURI(name); err != nil {
		return n, proxy.Errf(proxy.InvalidParams, "The URI of the resource has %s. Servers read that differently, so it is refused where rules about resources "+
			"apply; send the URI as the server lists it.", err.Error())
	}
	return n, nil
}

// selector selects things of a kind by patterns.
type selector struct {
	names policies.Patterns[bool]
	uris  policies.URIRules
}

func newSelector(k thing, patterns []string) (s selector) {
	if k == resourceThing {
		s.uris = policies.NewURIRules(patterns)
		return s
	}
	of := make(map[string]bool, len(patterns))
	for _, n := range patterns {
		of[n] = true
	}
	s.names = policies.NewPatterns(of)
	return s
}

func (s *selector) empty() bool { return s.names.Empty() && s.uris.Empty() }

// covers reports whether a server may take the name for one that is selected.
func (s *selector) covers(n *named) bool {
	if n.uri != nil {
		return s.uris.Cover(n.uri)
	}
	_, ok := s.names.Find(n.name)
	return ok
}

// permits reports whether the name is one that is selected, whoever reads it.
func (s *selector) permits(n *named) bool {
	if n.uri != nil {
		return s.uris.Permit(n.uri)
	}
	_, ok := s.names.FindExact(n.name)
	return ok
}

// reference returns the names in the reference of a completion/complete, of which one should be present.
func reference(m *wire.Message) (name, uri wire.Span, err error) {
	if err := checkMembers(m.Raw, m.Params, "ref"); err != nil {
		return name, uri, err
	}
	ref := wire.Get(m.Raw, m.Params, "ref")
	if err := checkMembers(m.Raw, ref, "type", "name", "uri"); err != nil {
		return name, uri, err
	}
	return wire.Get(m.Raw, ref, "name"), wire.Get(m.Raw, ref, "uri"), nil
}

// subscribed returns the list of resources of a subscriptions/listen.
func subscribed(m *wire.Message) (list wire.Span, err error) {
	if err := checkMembers(m.Raw, m.Params, "notifications"); err != nil {
		return list, err
	}
	if err := checkMembers(m.Raw, m.Notifications, "resourceSubscriptions"); err != nil {
		return list, err
	}
	return wire.Get(m.Raw, m.Notifications, "resourceSubscriptions"), nil
}

// checkMembers refuses an object in which a member of one of the names is there twice or with other capitals: a server
// may read another one than is judged. wire.Scan does so for the members that it records.
func checkMembers(raw []byte, obj wire.Span, names ...string) error {
	for _, name := range names {
		found := 0
		for key := range wire.Members(raw, obj) {
			if bytes.EqualFold(key.Text(raw), []byte(name)) {
				found++
			}
		}
		if found > 1 || found == 1 && !wire.Get(raw, obj, name).Present() {
			return proxy.Errf(proxy.InvalidParams, "the member %q appears twice, or in other capitals", name)
		}
	}
	return nil
}

// judged are the folded names of the methods about which rules say something.
var judged = foldedMethods("tools/list", "prompts/list", "resources/list", "resources/templates/list", "tools/call", "prompts/get",
	"resources/read", "resources/subscribe", "resources/unsubscribe", "completion/complete", "subscriptions/listen",
	"skills/list", "skills/get", "resources/directory/read")

func foldedMethods(methods ...string) map[string]string {
	all := make(map[string]string, len(methods))
	for _, m := range methods {
		all[string(policies.Fold([]byte(m)))] = m
	}
	return all
}

// checkMethod refuses a method that a lenient server may take for one of those that rules judge.
func checkMethod(m *wire.Message) error {
	method := m.Text(m.Method)
	if like, ok := judged[string(policies.Fold(method))]; ok && like != string(method) {
		return proxy.Errf(proxy.MethodNotFound, "there is no such method; write %q", like)
	}
	return nil
}

// errNoString refuses a name that is no string, which a server may turn into one.
func errNoString(k thing) error {
	member := "name"
	if k == resourceThing {
		member = "uri"
	}
	return proxy.Errf(proxy.InvalidParams, "the member %q must be a string", member)
}
