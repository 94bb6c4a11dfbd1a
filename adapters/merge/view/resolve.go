package view

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/names"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// explicit returns the server that a request names in its _meta; empty if it names none.
func (v *View) explicit(m *wire.Message) (string, *proxy.Error) {
	switch {
	case !m.Server.Present():
		return "", nil
	case !m.Server.IsString(m.Raw):
		return "", proxy.Errf(proxy.InvalidParams, "params._meta[%q] must be a string", wire.MetaServer)
	}
	server := string(m.Text(m.Server))
	return server, v.member(server)
}

// DropServer drops the member of _meta that names a server, which is for Dragoman alone.
func DropServer(m *wire.Message) {
	if m.Server.Present() {
		m.EditObject(m.Meta, []wire.Change{{Key: wire.MetaServer}})
	}
}

// Beyond finds out for which server a message is whose method is none of the protocol: the one that it names, else the only one that
// offers clients of a legacy revision, or modern ones if version is empty, what is none of the protocol. Empty: it is for none.
func (v *View) Beyond(m *wire.Message, version string) (server string, err *proxy.Error) {
	if server, err = v.explicit(m); server != "" || err != nil {
		return server, err
	}
	for _, s := range v.snap.Servers {
		switch {
		case v.members()[s.Name] == nil || !extends(offered(s, version), version == "" && v.of.opt.Skills != NoSkills):
		case server != "":
			return "", nil
		default:
			server = s.Name
		}
	}
	return server, nil
}

// named returns the server that a name of a tool or prompt means, and its own name there (seed 004, Routing Resolution Algorithm).
func (v *View) named(kind catalogue.Kind, name []byte, server string) (names.Name, *proxy.Error) {
	table := v.list(kind).table
	if server != "" {
		return table.At(server, string(name)), nil
	}
	at, err := table.Find(name)
	if err == nil {
		return at, nil
	}
	if errors.Is(err, names.ErrUnknown) {
		if server := v.held(kind, func(key string) bool { return key == string(name) }); server != "" {
			return names.Name{Server: server, Original: string(name)}, nil
		}
	}
	return at, unknown(kind, string(name), err)
}

// held returns the only server that lists something to Dragoman that may be held; empty: there is none.
func (v *View) held(kind catalogue.Kind, is func(key string) bool) (server string) {
	for _, s := range v.snap.Servers {
		m, l := v.members()[s.Name], s.Lists[kind]
		if m == nil || !m.Pinned || l == nil || !slices.ContainsFunc(l.Items, func(item catalogue.Item) bool { return is(item.Key) }) {
			continue
		}
		if server != "" {
			return ""
		}
		server = s.Name
	}
	return server
}

// maxCandidates bounds the names in an error.
const maxCandidates = 20

// unknown returns the error for a name that no server, or more than one, has.
func unknown(kind catalogue.Kind, name string, err error) *proxy.Error {
	var several *names.AmbiguousError
	switch {
	case errors.As(err, &several):
		return proxy.Errf(proxy.InvalidParams, "several servers have %s; name one: %s", name, candidates(several.Candidates))
	case kind == catalogue.Tools:
		return proxy.Errf(proxy.ToolUnknown, "Tool not found: %s", name)
	}
	return proxy.Errf(proxy.InvalidParams, "Prompt not found: %s", name)
}

func candidates(all []string) string {
	text := strings.Join(all[:min(len(all), maxCandidates)], ", ")
	if len(all) > maxCandidates {
		text += " and others"
	}
	return text
}

// resolver finds the server of a URI that is not listed.
type resolver struct {
	templates []template
	held      []template          // of servers that are Pinned: those that may be held, too
	schemes   map[string][]string // servers by the schemes of what they list
	unowned   map[string][]string // servers by the URIs and templates that they list and that belong to none
}

// template is a URI template of a member.
type template struct {
	server  string
	matches *regexp.Regexp
}

// owner returns the server to which a URI belongs; empty: none of those behind the endpoint. A server that shows the caller lists
// of its own is not the owner by the lists that it shows others.
func (v *View) owner(uri string) string {
	owner := v.snap.Owner(uri)
	if v.members()[owner] == nil || slices.ContainsFunc(v.own, func(s *catalogue.Server) bool { return s.Name == owner }) {
		return ""
	}
	return owner
}

// lister returns the server to which a listed URI or template leads: its owner, else the only one that lists it; empty: there is none.
func (v *View) lister(uri string) string {
	if owner := v.owner(uri); owner != "" {
		return owner
	}
	v.once.Do(v.resolve)
	all := v.uris.unowned[uri]
	if owner := v.snap.Owner(uri); slices.Contains(all, owner) {
		return owner
	}
	if len(all) != 1 {
		return ""
	}
	return all[0]
}

// server returns the server to which a plain URI leads: the one that lists it, else the one that has a template for it, else the only one
// with its scheme.
func (v *View) server(uri string) (string, *proxy.Error) {
	if lister := v.lister(uri); lister != "" {
		return lister, nil
	}
	found := v.candidates(uri)
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		for _, t := range v.uris.held {
			if t.matches.MatchString(uri) {
				return t.server, nil // which says why it is refused
			}
		}
		return "", proxy.Errf(proxy.InvalidParams, "Resource not found: %s", uri)
	}
	all := make([]string, len(found))
	for i, server := range found {
		if all[i] = v.skillURI(server, uri); all[i] == "" {
			all[i] = names.PublicURI(server, uri)
		}
	}
	return "", proxy.Errf(proxy.InvalidParams, "Resource %s may be of several servers; name one: %s", uri, candidates(all))
}

// candidates returns the servers to which a URI may lead that no single one lists.
func (v *View) candidates(uri string) (found []string) {
	v.once.Do(v.resolve)
	if several := v.uris.unowned[uri]; several != nil {
		return several
	}
	for _, t := range v.uris.templates {
		if !slices.Contains(found, t.server) && t.matches.MatchString(uri) {
			found = append(found, t.server)
		}
	}
	if _, _, long := names.SplitURI(uri); len(found) == 0 && !long {
		found = v.uris.schemes[names.Scheme(uri)]
	}
	if len(found) == 0 && strings.HasPrefix(uri, "skill://") { // instructions of servers may name skills that are in no list
		found = v.skilledServers()
	}
	return found
}

// resolve makes the resolver.
func (v *View) resolve() {
	v.uris.schemes, v.uris.unowned = map[string][]string{}, map[string][]string{}
	for _, s := range v.snap.Servers {
		if m := v.members()[s.Name]; m != nil && m.Pinned {
			v.uris.held = append(v.uris.held, mayBeHeld(s)...)
		}
	}
	for _, kind := range [...]catalogue.Kind{catalogue.Resources, catalogue.Templates} {
		for _, e := range v.entriesOf(kind) {
			if at := names.Scheme(e.Original); at != "" && !slices.Contains(v.uris.schemes[at], e.Server) {
				v.uris.schemes[at] = append(v.uris.schemes[at], e.Server)
			}
			if v.owner(e.Original) == "" && !slices.Contains(v.uris.unowned[e.Original], e.Server) {
				v.uris.unowned[e.Original] = append(v.uris.unowned[e.Original], e.Server)
			}
			if kind != catalogue.Templates {
				continue
			}
			if matches := names.Pattern(e.Original); matches != nil {
				v.uris.templates = append(v.uris.templates, template{e.Server, matches})
			}
		}
	}
}

// mayBeHeld returns the templates of a server that is Pinned, with those that are held.
func mayBeHeld(s *catalogue.Server) (all []template) {
	if l := s.Lists[catalogue.Templates]; l != nil {
		for i := range l.Items {
			if matches := names.Pattern(l.Items[i].Key); matches != nil {
				all = append(all, template{s.Name, matches})
			}
		}
	}
	return all
}

// entriesOf returns the entries of a list that the caller may see. Unlike list it does not need URIs to be resolved.
func (v *View) entriesOf(kind catalogue.Kind) (all []entry) {
	for _, s := range v.snap.Servers {
		if m := v.members()[s.Name]; m != nil && s.Lists[kind] != nil {
			all = append(all, m.shown(v.caller, kind, s.Lists[kind].Items)...)
		}
	}
	return all
}

// located returns the server that a URI means, and its own URI there.
func (v *View) located(uri, server string) (names.Name, *proxy.Error) {
	if of, plain, ok := names.SplitURI(uri); ok && v.of.members[of] != nil {
		return names.Name{Server: of, Original: plain}, nil
	}
	if of, plain := v.splitSkill(uri); of != "" && (server == "" || server == of) {
		return names.Name{Server: of, Original: plain}, nil
	}
	if server != "" {
		return names.Name{Server: server, Original: uri}, nil
	}
	server, err := v.server(uri)
	return names.Name{Server: server, Original: uri}, err
}

// names reports whether a URI names one of the servers.
func (v *View) names(uri string) bool {
	if of, _, ok := names.SplitURI(uri); ok && v.of.members[of] != nil {
		return true
	}
	of, _ := v.splitSkill(uri)
	return of != ""
}

// Locate returns the server that a URI means, and its own URI there; an error if it means none, or several.
func (v *View) Locate(uri string) (names.Name, *proxy.Error) { return v.located(uri, "") }

// about returns where a request has the name or URI that it is about, and of which kind that is.
func about(m *wire.Message) (at wire.Span, kind catalogue.Kind) {
	switch {
	case m.Is("tools/call"):
		return m.Name, catalogue.Tools
	case m.Is("prompts/get"):
		return m.Name, catalogue.Prompts
	case m.Is("completion/complete"):
		ref := wire.Get(m.Raw, m.Params, "ref")
		if wire.Get(m.Raw, ref, "type").Is(m.Raw, "ref/resource") {
			return wire.Get(m.Raw, ref, "uri"), catalogue.Templates
		}
		return wire.Get(m.Raw, ref, "name"), catalogue.Prompts
	}
	return m.URI, catalogue.Resources
}

// Destination is the server that a request is for, and what the request is about.
type Destination struct {
	names.Name
	At    wire.Span // of the name or URI in the request
	Asked []byte    // that name or URI, borrowed from the request
	Kind  catalogue.Kind
}

// Destination finds out for which server a request is. At and Kind are set also if there is none.
func (v *View) Destination(m *wire.Message) (d Destination, err *proxy.Error) {
	d.At, d.Kind = about(m)
	if !d.At.IsString(m.Raw) {
		return d, proxy.Errf(proxy.InvalidParams, "params of %s: the name or URI must be a string", m.Text(m.Method))
	}
	d.Asked = m.Text(d.At)
	server, err := v.explicit(m)
	if err != nil {
		return d, err
	}
	if d.Kind == catalogue.Tools || d.Kind == catalogue.Prompts {
		d.Name, err = v.named(d.Kind, d.Asked, server)
		return d, err
	}
	d.Name, err = v.located(string(d.Asked), server)
	return d, err
}

// Certain reports whether lists that are not known yet cannot lead a request to another destination.
func (v *View) Certain(m *wire.Message, d *Destination) bool {
	if m.Server.Present() || !d.At.IsString(m.Raw) {
		return true
	}
	name := string(d.Asked)
	if d.Kind == catalogue.Tools || d.Kind == catalogue.Prompts {
		return v.list(d.Kind).table.Certain(name)
	}
	_, _, long := names.SplitURI(name)
	return long || v.names(name) || v.owner(name) != ""
}

// At returns the destination of a call of a tool at one of several servers that have it under the name in the request.
func (v *View) At(m *wire.Message, server string) (d Destination, ok bool) {
	asked := m.Text(m.Name)
	name := string(asked)
	d = Destination{Name: names.Name{Server: server, Original: name}, At: m.Name, Asked: asked}
	return d, slices.Contains(v.list(catalogue.Tools).table.Servers(name), server)
}
