package view

import (
	"crypto/sha256"
	"hash"
	"strconv"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/names"
	"dragoman/adapters/rules"
	"dragoman/adapters/skills"
	"dragoman/proxy/wire"
)

// SkillsExtension is the name of the extension by which servers serve Agent Skills (SEP-2640).
const SkillsExtension = "io.modelcontextprotocol/skills"

// Skills says whose skills an endpoint serves to modern clients. The extension does not exist for legacy ones.
type Skills uint8

// NoSkills is the default: its methods are, as those of any extension, for the only member that has them.
const (
	NoSkills        Skills = iota
	MembersSkills          // those of members that declare the extension
	GeneratedSkills        // and one that Dragoman writes for each other member that shows the caller a tool
)

// skillURI returns the URI by which clients reach a file of a member's skill; empty: the URI is no skill's, or skills are not served.
func (v *View) skillURI(server, uri string) string {
	if v.of.opt.Skills == NoSkills {
		return ""
	}
	public, _ := names.SkillURI(server, uri)
	return public
}

// splitSkill returns the server that the URI of a skill names, and its own URI there; empty: it names none.
func (v *View) splitSkill(uri string) (server, plain string) {
	if v.of.opt.Skills == NoSkills {
		return "", ""
	}
	server, plain, ok := names.SplitSkillURI(uri)
	if !ok || v.of.members[server] == nil {
		return "", ""
	}
	return server, plain
}

// skilled returns what a server declares of the extension, a JSON object; nil: nothing, or the caller may not use the server.
func (v *View) skilled(s *catalogue.Server) []byte {
	if s == nil || v.of.opt.Skills == NoSkills || v.members()[s.Name] == nil || !rules.Supported(s.Revision) {
		return nil
	}
	return wire.Path(s.Capabilities, wire.Whole(s.Capabilities), "extensions", SkillsExtension).Of(s.Capabilities)
}

// skilledServers returns the members with skills of their own that the caller may use.
func (v *View) skilledServers() (all []string) {
	for _, s := range v.snap.Servers {
		if v.skilled(s) != nil {
			all = append(all, s.Name)
		}
	}
	return all
}

// Skilled reports whether a member that the caller may use serves skills of its own, and whether it lists directories of their files.
func (v *View) Skilled(server string) (skilled, directories bool) {
	declared := v.skilled(v.snap.Server(server))
	return declared != nil, declared != nil && string(wire.Get(declared, wire.Whole(declared), "directoryRead").Of(declared)) == "true"
}

// Generates reports whether Dragoman writes the skill of a server: it has none of its own, and the caller sees a tool of it.
func (v *View) Generates(server string) bool {
	s := v.snap.Server(server)
	if v.of.opt.Skills != GeneratedSkills || s == nil || v.members()[server] == nil || v.skilled(s) != nil {
		return false
	}
	l := v.list(catalogue.Tools)
	for i := range l.entries {
		if l.entries[i].Server == server && v.callable(l, i) {
			return true
		}
	}
	return false
}

// callable reports whether a modern client can call a tool.
func (v *View) callable(l *list, i int) bool {
	return l.table.Public(i) != "" && !v.onlyAsTask(&l.entries[i])
}

// HasSkills reports whether the caller is served any skills.
func (v *View) HasSkills() bool { return len(v.SkillServers()) > 0 }

// SkillServers returns the servers whose skills the caller is served, by their names.
func (v *View) SkillServers() (all []string) {
	if v.of.opt.Skills == NoSkills {
		return nil
	}
	for _, s := range v.snap.Servers {
		if v.skilled(s) != nil || v.Generates(s.Name) {
			all = append(all, s.Name)
		}
	}
	return all
}

// generatedPart is the part of the path of generated skills that says that they are.
const generatedPart = "/generated/"

// GeneratedRoot returns the URI of the folder of a server's generated skill.
func GeneratedRoot(server string) string {
	return "skill://" + server + generatedPart + skills.Name(server)
}

// Generated is a skill that Dragoman has written, and how its description may be cached (2026-07-28 caching).
type Generated struct {
	*skills.Skill
	TTL     time.Duration
	Private bool
}

// Generated writes the skill of a server of what the caller sees of it: tools and prompts by their public names. The same content is written
// once. Generates must be true of the server.
func (v *View) Generated(server string) (g Generated, err error) {
	of := v.snap.Server(server)
	g.TTL, g.Private = -1, v.apart
	for _, l := range of.Lists {
		if l != nil {
			g.Private = g.Private || l.Private
			if g.TTL < 0 || l.TTL < g.TTL {
				g.TTL = l.TTL
			}
		}
	}
	if g.TTL < 0 || of.Presence != catalogue.There {
		g.TTL = 0
	}
	at := v.described(of)
	g.Skill, err = v.of.skills.of(sumOf(&at), func() (skills.Skill, error) { return skills.Generate(at) })
	return g, err
}

// described returns a server as the caller sees it.
func (v *View) described(of *catalogue.Server) skills.Server {
	m := v.members()[of.Name]
	text := func(raw []byte, key string) string { return string(wire.Get(raw, wire.Whole(raw), key).Text(raw)) }
	at := skills.Server{ID: of.Name, Title: text(object(of.Info), "title"), Instructions: of.Instructions, How: how}
	if at.Title == "" {
		at.Title = text(object(of.Info), "name")
	}
	if m.Instructions != nil {
		at.Instructions = m.Instructions(at.Instructions)
	}
	l := v.list(catalogue.Tools)
	for i := range l.entries {
		raw := l.entries[i].raw
		if l.entries[i].Server != of.Name || !v.callable(l, i) {
			continue
		}
		all := wire.Whole(raw)
		hint := func(key string) bool { return string(wire.Path(raw, all, "annotations", key).Of(raw)) == "true" }
		at.Tools = append(at.Tools, skills.Tool{Name: l.table.Public(i), Title: text(raw, "title"), Description: text(raw, "description"),
			InputSchema: wire.Get(raw, all, "inputSchema").Of(raw), OutputSchema: wire.Get(raw, all, "outputSchema").Of(raw),
			ReadOnly: hint("readOnlyHint"), Destructive: hint("destructiveHint")})
	}
	l = v.list(catalogue.Prompts)
	for i := range l.entries {
		if e := &l.entries[i]; e.Server == of.Name && l.table.Public(i) != "" {
			at.Prompts = append(at.Prompts, skills.Prompt{Name: l.table.Public(i), Title: text(e.raw, "title"), Description: text(e.raw, "description")})
		}
	}
	for _, kind := range [...]catalogue.Kind{catalogue.Resources, catalogue.Templates} {
		l := v.list(kind)
		for i := range l.entries {
			if e := &l.entries[i]; e.Server == of.Name {
				at.Resources = append(at.Resources, skills.Resource{URI: v.public(kind, l, i), Name: text(e.raw, "name"), Description: text(e.raw, "description")})
			}
		}
	}
	return at
}

// how says how the tools are called. A host that is listed the meta-tools in their place may have no other way for its model.
const how = "Call a tool of this server by the name that stands here, at the endpoint that serves this skill. If it is not among your tools and `call_tool` is, give that the name and the arguments."

// sumOf returns a digest of all that a skill is written of.
func sumOf(s *skills.Server) (sum [sha256.Size]byte) {
	h := sha256.New()
	put(h, s.ID, s.Title, s.Instructions)
	for _, t := range s.Tools {
		hints := []byte{0, 0}
		if t.ReadOnly {
			hints[0] = 1
		}
		if t.Destructive {
			hints[1] = 1
		}
		put(h, "t", t.Name, t.Title, t.Description, string(t.InputSchema), string(t.OutputSchema), string(hints))
	}
	for _, p := range s.Prompts {
		put(h, "p", p.Name, p.Title, p.Description)
	}
	for _, r := range s.Resources {
		put(h, "r", r.URI, r.Name, r.Description)
	}
	h.Sum(sum[:0])
	return sum
}

// put writes texts so that none can be taken for the end of one and the beginning of the next.
func put(h hash.Hash, texts ...string) {
	for _, text := range texts {
		_, _ = h.Write([]byte(strconv.Itoa(len(text)) + ":")) // a hash does not fail
		_, _ = h.Write([]byte(text))
	}
}

// Bounds of the generated skills that are kept.
const (
	maxGenerated      = 64
	maxGeneratedBytes = 32 << 20
)

// generated keeps skills by what they were written of. Nothing is allocated before somebody asks.
type generated struct {
	mu    sync.Mutex
	kept  *lru.Cache[[sha256.Size]byte, *written]
	bytes int
}

// written is a skill that is written once.
type written struct {
	once  sync.Once
	skill skills.Skill
	err   error
	size  int // as far as it counts; guarded by generated.mu
}

// of returns the skill of a digest, which write writes if it is not kept. Concurrent callers wait for that skill alone.
func (g *generated) of(sum [sha256.Size]byte, write func() (skills.Skill, error)) (*skills.Skill, error) {
	g.mu.Lock()
	if g.kept == nil {
		g.kept, _ = lru.NewWithEvict(maxGenerated, func(_ [sha256.Size]byte, w *written) { g.bytes -= w.size }) // it fails for a size below one only
	}
	w, known := g.kept.Get(sum)
	if !known {
		w = &written{}
		g.kept.Add(sum, w)
	}
	g.mu.Unlock()
	w.once.Do(func() {
		w.skill, w.err = write()
		g.count(sum, w)
	})
	if w.err != nil {
		return nil, w.err
	}
	return &w.skill, nil
}

// count counts the bytes of a skill that was written, and forgets others if they are too many.
func (g *generated) count(sum [sha256.Size]byte, w *written) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now, known := g.kept.Peek(sum); !known || now != w {
		return // it was forgotten meanwhile
	}
	w.size = sizeOfSkill(&w.skill)
	g.bytes += w.size
	for g.bytes > maxGeneratedBytes && g.kept.Len() > 1 {
		g.kept.RemoveOldest()
	}
}

func sizeOfSkill(s *skills.Skill) (n int) {
	for i := range s.Files {
		n += len(s.Files[i].Data)
	}
	return n
}

// SkillURIs makes the URIs of skills, of their files and of what is in a directory lead to the server that has given them. result is that
// of skills/list, skills/get or resources/directory/read.
func (v *View) SkillURIs(m *wire.Message, result wire.Span, server string) {
	replace := func(obj wire.Span) {
		if at := wire.Get(m.Raw, obj, "uri"); at.IsString(m.Raw) {
			uri := string(at.Text(m.Raw))
			if public := v.PublicURI(server, uri); public != uri {
				m.Replace(at, wire.AppendText(nil, public))
			}
		}
	}
	entry := func(obj wire.Span) {
		replace(obj)
		for _, one := range wire.Items(m.Raw, wire.Get(m.Raw, obj, "resources")) {
			replace(one)
		}
	}
	for _, one := range wire.Items(m.Raw, wire.Get(m.Raw, result, "skills")) {
		entry(one)
	}
	entry(wire.Get(m.Raw, result, "skill"))
	for _, one := range wire.Items(m.Raw, wire.Get(m.Raw, result, "resources")) {
		replace(one)
	}
}
