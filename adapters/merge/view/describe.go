package view

import (
	"slices"
	"strings"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/era/translate"
	"dragoman/adapters/rules"
	"dragoman/proxy/wire"
)

// Capabilities returns the union of what all members offer clients of a legacy revision, or modern ones if version is empty. Within a
// capability of the protocol a truth value is true if one member says so. Of everything else, such as extensions, objects are joined
// member by member, and of other values the first counts, by the names of the servers.
func (v *View) Capabilities(version string) []byte {
	all := []byte("{}")
	for _, s := range v.snap.Servers {
		if v.members()[s.Name] != nil {
			all = union(all, offered(s, version), 0, false)
		}
	}
	return v.withSkills(all, version)
}

// withSkills returns capabilities with what the endpoint itself declares of the extension for skills, which legacy clients are not told of.
func (v *View) withSkills(all []byte, version string) []byte {
	extensions := wire.Get(all, wire.Whole(all), "extensions").Of(all)
	switch {
	case version == "" && v.HasSkills():
		all = union(all, []byte(`{"resources":{}}`), 0, false)
		return wire.With(all, wire.Change{Key: "extensions", Value: wire.With(object(extensions), wire.Change{Key: SkillsExtension, Value: []byte(`{"directoryRead":true}`)})})
	case version != "" && v.of.opt.Skills != NoSkills && extensions != nil:
		if rest := wire.Without(object(extensions), SkillsExtension); wire.Count(rest, wire.Whole(rest)) > 0 {
			return wire.With(all, wire.Change{Key: "extensions", Value: rest})
		}
		return wire.Without(all, "extensions")
	}
	return all
}

// object returns a JSON object; empty for what is none.
func object(raw []byte) []byte {
	if len(raw) == 0 || raw[0] != '{' {
		return []byte("{}")
	}
	return raw
}

// offered returns the capabilities of a server for clients of a legacy revision, or modern ones if version is empty.
func offered(s *catalogue.Server, version string) []byte {
	caps := s.Capabilities
	if len(caps) == 0 {
		return []byte("{}")
	}
	if rules.Supported(s.Revision) != (version == "") {
		return translate.ServerCaps(caps, true)
	}
	if version != "" && !rules.Tasks.In(version) {
		return wire.Without(caps, "tasks")
	}
	return caps
}

// Offer returns the servers that offer clients of a legacy revision, or modern ones if version is empty, the capability at a path.
func (v *View) Offer(version string, path ...string) (servers []string) {
	for _, s := range v.snap.Servers {
		if caps := offered(s, version); v.members()[s.Name] != nil && wire.Path(caps, wire.Whole(caps), path...).Present() {
			servers = append(servers, s.Name)
		}
	}
	return servers
}

// extends reports whether capabilities have something that is none of the protocol, and that may have methods. MCP Apps have none, and those of
// skills do not count if the endpoint answers them itself.
func extends(caps []byte, skills bool) bool {
	all := wire.Whole(caps)
	for key := range wire.Members(caps, all) {
		if name := string(key.Text(caps)); name != "extensions" && name != "experimental" && !slices.Contains(ofProtocol, name) {
			return true
		}
	}
	for _, group := range [...]string{"extensions", "experimental"} {
		for key := range wire.Members(caps, wire.Get(caps, all, group)) {
			if !key.Is(caps, translate.TasksExtension) && !key.Is(caps, appsExtension) && !(skills && key.Is(caps, SkillsExtension)) {
				return true
			}
		}
	}
	return false
}

// appsExtension is the name of MCP Apps (SEP-1865).
const appsExtension = "io.modelcontextprotocol/ui"

// ofProtocol are the server capabilities of the protocol, of all revisions.
var ofProtocol = []string{"tools", "prompts", "resources", "completions", "logging", "tasks"}

// maxUnion bounds the depth to which union looks.
const maxUnion = 4

// union joins two JSON objects: the capabilities of a server, or, at a depth, what is in one of them. either means that truth values are
// joined, too.
func union(a, b []byte, depth int, either bool) []byte {
	var changes []wire.Change
	for key, value := range wire.Members(b, wire.Whole(b)) {
		name := string(key.Of(b))
		name = name[1 : len(name)-1]
		before := wire.Get(a, wire.Whole(a), string(key.Text(b)))
		switch {
		case !before.Present(), either && string(before.Of(a)) == "false" && string(value.Of(b)) == "true":
			changes = append(changes, wire.Change{Key: name, Value: value.Of(b)})
		case before.IsObject(a) && value.IsObject(b) && depth < maxUnion:
			changes = append(changes, wire.Change{Key: name, Value: union(before.Of(a), value.Of(b), depth+1, either || depth == 0 && slices.Contains(ofProtocol, name))})
		}
	}
	for part := range slices.Chunk(changes, maxChanges) {
		a = wire.With(a, part...)
	}
	return a
}

// maxChanges is how many members of an object are edited at once (wire.EditObject).
const maxChanges = 64

// Instructions joins those of the members, each under its name.
func (v *View) Instructions() string {
	var b strings.Builder
	for _, s := range v.snap.Servers {
		m, text := v.members()[s.Name], s.Instructions
		if m != nil && m.Instructions != nil {
			text = m.Instructions(text)
		}
		if m == nil || text == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString("# " + s.Name + "\n\n" + text)
	}
	return b.String()
}
