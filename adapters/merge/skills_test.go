package merge

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-json"

	"dragoman/adapters/merge/view"
	"dragoman/adapters/skills"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// skilledCaps are capabilities with the extension for skills.
const skilledCaps = `{"resources":{},"extensions":{"io.modelcontextprotocol/skills":{%s}}}`

// entry returns a skill's entry with a file beside SKILL.md, at a server.
func entry(path, name string) string {
	at := "skill://" + path + "/"
	return fmt.Sprintf(`{"uri":%q,"frontmatter":{"name":%q,"description":"d","x":{"y":[1,2.50]}},"resources":[{"uri":%q,"digest":"sha256:aa","size":2},{"uri":%q,"digest":"sha256:bb","size":3}]}`,
		at+"SKILL.md", name, at+"SKILL.md", at+"docs/a.md")
}

// skilled returns a server with skills, which answers each method of the extension.
func skilled(directories bool, entries ...string) *script {
	s := newScript(true, fmt.Sprintf(skilledCaps, `"directoryRead":`+fmt.Sprint(directories)))
	s.set("skills/list", `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","skills":[`+strings.Join(entries, ",")+`],"ttlMs":5000,"cacheScope":"public"}}`)
	s.set("skills/get", `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","skill":`+entries[0]+`,"ttlMs":5000,"cacheScope":"public"}}`)
	s.set("resources/read", `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","contents":[{"uri":$URI,"text":"x"}],"ttlMs":0,"cacheScope":"private"}}`)
	s.set("resources/directory/read", `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","resources":[{"uri":"skill://refunds/docs/a.md","name":"a.md"}]}}`)
	return s
}

// drained takes what a server has received until now.
func (s *script) drained() {
	for {
		select {
		case <-s.heard:
		default:
			return
		}
	}
}

// uris returns the URIs of the skills in a list, and of their files.
func (r reply) skillURIs() (all []string) {
	raw := []byte(r.raw)
	for _, one := range wire.Items(raw, wire.Path(raw, wire.Whole(raw), "result", "skills")) {
		all = append(all, string(wire.Get(raw, one, "uri").Text(raw)))
		for _, file := range wire.Items(raw, wire.Get(raw, one, "resources")) {
			all = append(all, string(wire.Get(raw, file, "uri").Text(raw)))
		}
	}
	return all
}

// Skills of members of one name are told apart by the first part of their path; frontmatter, digests and sizes are as the members wrote them.
func TestSkillsOfMembers(t *testing.T) {
	a, b := skilled(true, entry("refunds", "refunds")), skilled(false, entry("refunds", "refunds"), entry("acme/x", "x"))
	plain := newScript(true, `{"tools":{}}`)
	r := scriptRig(t, Options{Skills: view.MembersSkills}, a, b, plain)
	caps := r.call("server/discover", "").at("capabilities")
	has(t, caps, `"resources":{}`, `"io.modelcontextprotocol/skills":{"directoryRead":true}`)
	got := r.call("skills/list", "")
	want := []string{"skill://a/refunds/SKILL.md", "skill://a/refunds/SKILL.md", "skill://a/refunds/docs/a.md",
		"skill://b/refunds/SKILL.md", "skill://b/refunds/SKILL.md", "skill://b/refunds/docs/a.md", "skill://b/acme/x/SKILL.md", "skill://b/acme/x/SKILL.md", "skill://b/acme/x/docs/a.md"}
	if all := got.skillURIs(); !slices.Equal(all, want) {
		t.Errorf("%q, want %q", all, want)
	}
	has(t, got.raw, `"frontmatter":{"name":"refunds","description":"d","x":{"y":[1,2.50]}}`, `"digest":"sha256:bb","size":3`, `"ttlMs":5000`, `"cacheScope":"public"`, `"resultType":"complete"`, `serverInfo"`)
	if again := r.call("skills/list", ""); again.raw != got.raw {
		t.Errorf("%s\nthen %s", got.raw, again.raw)
	}
	a.drained()
	b.drained()
	for _, test := range []struct {
		of          *script
		method, uri string
		own         string // as the member is asked
		want        string
	}{
		{a, "skills/get", "skill://a/refunds/SKILL.md", "skill://refunds/SKILL.md", `"uri":"skill://a/refunds/docs/a.md"`},
		{b, "skills/get", "skill://b/refunds/SKILL.md", "skill://refunds/SKILL.md", `"uri":"skill://b/refunds/docs/a.md"`},
		{b, "resources/read", "skill://b/acme/x/docs/a.md", "skill://acme/x/docs/a.md", `"uri":"skill://b/acme/x/docs/a.md"`},
		{a, "resources/directory/read", "skill://a/refunds/docs", "skill://refunds/docs", `"resources":[{"uri":"skill://a/refunds/docs/a.md","name":"a.md"}]`},
	} {
		got := r.call(test.method, `"uri":"`+test.uri+`"`)
		has(t, got.raw, test.want)
		has(t, test.of.hears(t, test.method), `"uri":"`+test.own+`"`)
	}
	quiet(t, a, b, plain)
}

// A member that does not list directories has them listed from the files of its skills.
func TestDirectoriesFromManifests(t *testing.T) {
	s := skilled(false, `{"uri":"skill://x/refunds/SKILL.md","frontmatter":{"name":"refunds","description":"d"},"resources":[{"uri":"skill://x/refunds/SKILL.md"},{"uri":"skill://x/refunds/z/b.txt"},{"uri":"skill://x/refunds/z/y/c.md"}]}`)
	r := scriptRig(t, Options{Skills: view.MembersSkills}, s, skilled(true, entry("other", "other")))
	for dir, want := range map[string]string{
		"skill://a/x/refunds":          `"resources":[{"uri":"skill://a/x/refunds/SKILL.md","name":"SKILL.md","mimeType":"text/markdown"},{"uri":"skill://a/x/refunds/z","name":"z","mimeType":"inode/directory"}]`,
		"skill://a/x/refunds/z":        `"resources":[{"uri":"skill://a/x/refunds/z/b.txt","name":"b.txt"},{"uri":"skill://a/x/refunds/z/y","name":"y","mimeType":"inode/directory"}]`,
		"skill://a/x/refunds/SKILL.md": "", "skill://a/x/refunds/": "", "skill://a/x/refunds/none": "", "skill://c/x": "",
	} {
		got := r.call("resources/directory/read", `"uri":"`+dir+`"`)
		if want == "" {
			if e := proxy.AsError(got.err); got.err == nil || e.Code != -32602 {
				t.Errorf("%s: %v", dir, got)
			}
			continue
		}
		has(t, got.raw, want, `"resultType":"complete"`)
	}
}

// The pages of members are those of the list, and a member that fails is left out, which the list says, or fails it.
func TestPagesOfSkills(t *testing.T) {
	a, b, c := skilled(true, entry("one", "one")), skilled(true, entry("two", "two")), skilled(true, entry("three", "three"))
	a.set("skills/list", `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","skills":[`+entry("one", "one")+`],"nextCursor":"more","ttlMs":9,"cacheScope":"private"}}`)
	r := scriptRig(t, Options{Skills: view.MembersSkills}, a, b, c)
	first := r.call("skills/list", "")
	if all := first.keysOf("skills", "uri"); !slices.Equal(all, []string{"skill://a/one/SKILL.md"}) {
		t.Errorf("first page: %q", all)
	}
	has(t, first.raw, `"ttlMs":9`, `"cacheScope":"private"`)
	a.drained()
	a.set("skills/list", `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","skills":[`+entry("last", "last")+`],"ttlMs":9,"cacheScope":"private"}}`)
	b.set("skills/list", `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32603,"message":"broken"}}`)
	second := r.call("skills/list", `"cursor":"`+first.at("nextCursor")+`"`)
	if all := second.keysOf("skills", "uri"); !slices.Equal(all, []string{"skill://a/last/SKILL.md", "skill://c/three/SKILL.md"}) || second.at("nextCursor") != "" {
		t.Errorf("second page: %q", all)
	}
	has(t, a.hears(t, "skills/list"), `"cursor":"more"`)
	has(t, second.raw, `"io.dragoman/servers":[{"name":"b","list":"left out"}]`, `"ttlMs":0`)
	for _, cursor := range []string{`"!"`, `""`} {
		if got := r.call("skills/list", `"cursor":`+cursor); got.err == nil || proxy.AsError(got.err).Code != -32602 {
			t.Errorf("cursor %s: %v", cursor, got)
		}
	}
	r.SetStrict(true)
	if got := r.call("skills/list", ""); got.err == nil && got.at("nextCursor") == "" {
		t.Errorf("strict: %v", got)
	}
	if got := r.call("skills/list", `"cursor":"Yg"`); nameOf(got.err) != "upstream_unreachable" || !strings.Contains(got.err.Error(), "b") {
		t.Errorf("strict from b: %v", got)
	}
}

// A page ends before a member for whose skills there is no room.
func TestPagesHaveABound(t *testing.T) {
	r := scriptRig(t, Options{Skills: view.MembersSkills, PageBytes: 100}, skilled(true, entry("one", "one")), skilled(true, entry("two", "two")))
	first := r.call("skills/list", "")
	second := r.call("skills/list", `"cursor":"`+first.at("nextCursor")+`"`)
	all := append(first.keysOf("skills", "uri"), second.keysOf("skills", "uri")...)
	if !slices.Equal(all, []string{"skill://a/one/SKILL.md", "skill://b/two/SKILL.md"}) || len(second.keysOf("skills", "uri")) != 1 || second.at("nextCursor") != "" {
		t.Errorf("%s\n%s", first.raw, second.raw)
	}
}

// A skill that nobody serves is a wrong parameter, as SEP-2640 says.
func TestUnknownSkills(t *testing.T) {
	s := skilled(true, entry("one", "one"))
	s.set("skills/get", `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"No skill"}}`)
	tools := newScript(true, `{"tools":{}}`)
	tools.lists(`{"name":"t","inputSchema":{"type":"object"}}`, "", "")
	r := scriptRig(t, Options{Skills: view.GeneratedSkills}, s, tools)
	for _, test := range []struct{ method, params string }{
		{"skills/get", `"uri":"skill://b/none/SKILL.md"`}, {"skills/get", `"uri":"skill://b/generated/b"`}, {"skills/get", `"uri":"nothing://x"`}, {"skills/get", ``}, {"skills/get", `"uri":7`},
		{"resources/directory/read", `"uri":"skill://b/generated/b/none"`}, {"resources/directory/read", `"uri":"skill://b/generated/b/SKILL.md"`}, {"resources/directory/read", `"uri":"skill://b/generated"`},
		{"resources/read", `"uri":"skill://b/generated/b/none.md"`}, {"resources/read", `"uri":"skill://b/generated/b"`},
	} {
		if got := r.call(test.method, test.params); got.err == nil || proxy.AsError(got.err).Code != -32602 {
			t.Errorf("%s %s: %v", test.method, test.params, got)
		}
	}
	if got := r.call("skills/get", `"uri":"skill://a/none/SKILL.md"`); !strings.Contains(got.raw, "-32602") {
		t.Errorf("of the member: %v", got)
	}
}

// A server's instructions name skills by its own URIs: one leads to the only server that can have it, else the error names those of all.
func TestSkillsByTheURIsOfTheirServers(t *testing.T) {
	a, b := skilled(true, entry("acme/one", "one")), skilled(true, entry("acme/one", "one"))
	plain := newScript(true, `{"tools":{}}`)
	for _, method := range []string{"skills/get", "resources/read"} {
		a.drained()
		got := scriptRig(t, Options{Skills: view.MembersSkills}, a, plain).call(method, `"uri":"skill://acme/one/SKILL.md"`)
		has(t, got.raw, `"uri":"skill://a/acme/one/SKILL.md"`)
		has(t, a.hears(t, method), `"uri":"skill://acme/one/SKILL.md"`)
		got = scriptRig(t, Options{Skills: view.MembersSkills}, a, b).call(method, `"uri":"skill://acme/one/SKILL.md"`)
		if got.err == nil || proxy.AsError(got.err).Code != -32602 || !strings.Contains(got.err.Error(), "skill://a/acme/one/SKILL.md, skill://b/acme/one/SKILL.md") {
			t.Errorf("%s: %v", method, got)
		}
	}
}

// generatedSkill is an entry as a client reads it.
type generatedSkill struct {
	URI         string `json:"uri"`
	Frontmatter struct{ Name, Description string }
	Resources   []struct {
		URI, Digest string
		Size        int
	}
}

// readSkill reads an entry from the result of skills/get, and each file, and verifies them as SEP-2640 has hosts do.
func (r *rig) readSkill(t *testing.T, get func(method, params string) reply, uri string) (g generatedSkill, texts map[string]string) {
	t.Helper()
	if err := json.Unmarshal([]byte(get("skills/get", `"uri":"`+uri+`"`).at("skill")), &g); err != nil {
		t.Fatal(err)
	}
	texts = map[string]string{}
	for _, f := range g.Resources {
		got := get("resources/read", `"uri":"`+f.URI+`"`)
		var contents []struct{ URI, Text, MimeType string }
		if err := json.Unmarshal([]byte(got.at("contents")), &contents); err != nil || len(contents) != 1 {
			t.Fatalf("%s: %v %v", f.URI, got, err)
		}
		if c := contents[0]; c.URI != f.URI || c.MimeType != "text/markdown" || skills.Digest([]byte(c.Text)) != f.Digest || len(c.Text) != f.Size {
			t.Errorf("%s is not as its entry has it: %v", f.URI, c)
		}
		texts[f.URI] = contents[0].Text
	}
	head, _, err := skills.Split([]byte(texts[uri]))
	if err != nil || head.Name != g.Frontmatter.Name || head.Description != g.Frontmatter.Description || !strings.HasSuffix(uri, "/"+head.Name+"/SKILL.md") {
		t.Errorf("%s: %+v %v", uri, head, err)
	}
	return g, texts
}

// A member without skills has one that Dragoman writes of its lists, with the names of the merged endpoint. Its digests hold for what is read.
func TestGeneratedSkills(t *testing.T) {
	own := skilled(true, entry("one", "one"))
	tools := newScript(true, `{"tools":{"listChanged":true},"resources":{}}`)
	tools.lists(`{"name":"mow","description":"Mows the lawn.","inputSchema":{"type":"object","properties":{"height":{"type":"integer","minimum":2}},"required":["height"]}}`, `{"uri":"demo://x","name":"x"}`, "")
	legacy := newScript(false, `{"tools":{}}`)
	legacy.lists(`{"name":"dig","inputSchema":{"type":"object"}}`, "", "")
	empty := newScript(true, `{"resources":{}}`)
	r := scriptRig(t, Options{Skills: view.GeneratedSkills}, own, tools, legacy, empty)
	list := r.call("skills/list", "")
	want := []string{"skill://a/one/SKILL.md", "skill://b/generated/b/SKILL.md", "skill://c/generated/c/SKILL.md"}
	if all := list.keysOf("skills", "uri"); !slices.Equal(all, want) {
		t.Fatalf("%q, want %q", all, want)
	}
	g, texts := r.readSkill(t, r.call, want[1])
	has(t, list.raw, fmt.Sprintf(`"digest":%q`, g.Resources[0].Digest))
	has(t, texts[want[1]], "`b.mow`", "`Mows the lawn.`", `tools/call b.mow {"height":2}`, "(references/tool-b-mow.md)", "(references/resources.md)")
	has(t, texts["skill://b/generated/b/references/resources.md"], "`demo://x`")
	root := r.call("resources/directory/read", `"uri":"skill://b/generated/b"`)
	has(t, root.raw, `{"uri":"skill://b/generated/b/SKILL.md","name":"SKILL.md","mimeType":"text/markdown"}`, `{"uri":"skill://b/generated/b/references","name":"references","mimeType":"inode/directory"}`)
	below := r.call("resources/directory/read", `"uri":"skill://b/generated/b/references"`)
	if all := below.keysOf("resources", "name"); !slices.Equal(all, []string{"resources.md", "tool-b-mow.md"}) {
		t.Errorf("references: %q", all)
	}
	r.readSkill(t, r.call, want[2])
	for len(tools.heard)+len(legacy.heard) > 0 {
		select {
		case got := <-tools.heard:
			if !strings.Contains(got, "subscriptions/listen") {
				t.Errorf("a server was asked for a skill that Dragoman has written: %s", got)
			}
		case got := <-legacy.heard:
			t.Errorf("a server was asked for a skill that Dragoman has written: %s", got)
		}
	}
	tools.lists(`{"name":"mow","description":"Mows another way.","inputSchema":{"type":"object"}}`, `{"uri":"demo://x","name":"x"}`, "")
	r.lists.Reread("b")
	for {
		version := r.catalogue.Snapshot().Version
		if !strings.Contains(r.call("skills/list", "").raw, g.Resources[0].Digest) {
			_, texts := r.readSkill(t, r.call, want[1])
			has(t, texts[want[1]], "`Mows another way.`")
			break
		}
		select {
		case <-r.catalogue.Changed(version):
		case <-time.After(10 * time.Second):
			t.Fatal("the skill has not changed with the list")
		}
	}
}

// A caller reads in a skill of the tools that it may see only, and of no server that it may not use.
func TestGeneratedSkillsFollowRights(t *testing.T) {
	tools := newScript(true, `{"tools":{}}`)
	tools.lists(`{"name":"open","inputSchema":{"type":"object"}},{"name":"secret","inputSchema":{"type":"object"}}`, "", "")
	hidden := newScript(true, `{"tools":{}}`)
	hidden.lists(`{"name":"t","inputSchema":{"type":"object"}}`, "", "")
	r := scriptRig(t, Options{Skills: view.GeneratedSkills}, tools, hidden)
	members := []Member{*r.now.Load().members["a"].now.Load(), *r.now.Load().members["b"].now.Load()}
	members[0].Apart, members[0].Shown = true, func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			replies, err := next(ex)
			if err != nil || ex.Caller.Principal == "all" || !ex.Msg.Is("tools/list") {
				return replies, err
			}
			m, err := proxy.Response(replies, time.Time{})
			if err != nil {
				return nil, err
			}
			open := wire.Get(m.Raw, m.Result, "tools")
			for _, one := range wire.Items(m.Raw, open) {
				open = one
				break
			}
			return proxy.Reply(proxy.ResultMessage([]byte("0"), wire.Object([]wire.Change{{Key: "tools", Value: append(append([]byte{'['}, open.Of(m.Raw)...), ']')}}))), nil
		}
	}
	members[1].Apart, members[1].Shown = true, func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Caller.Principal != "all" {
				return nil, proxy.Errf(proxy.InsufficientScope, "no")
			}
			return next(ex)
		}
	}
	r.SetMembers(members)
	as := func(who string) func(method, params string) reply {
		return func(method, params string) reply { return r.as(who, `{}`, method, params) }
	}
	const of = "skill://a/generated/a/SKILL.md"
	all, texts := r.readSkill(t, as("all"), of)
	has(t, texts[of], "a.secret", "a.open")
	some, texts := r.readSkill(t, as("some"), of)
	if len(some.Resources) != 2 || len(all.Resources) != 3 || strings.Contains(fmt.Sprint(some, texts), "secret") {
		t.Errorf("%v %v", some, texts)
	}
	has(t, as("all")("skills/list", "").raw, "skill://b/generated/b/SKILL.md", `"cacheScope":"private"`)
	if got := as("some")("skills/list", ""); strings.Contains(got.raw, "://b/") {
		t.Errorf("%s", got.raw)
	}
	for _, method := range []string{"skills/get", "resources/read"} {
		if got := as("some")(method, `"uri":"skill://b/generated/b/SKILL.md"`); strings.Contains(got.raw, "b.t") || strings.Contains(got.raw, "frontmatter") {
			t.Errorf("%s of a server that does not exist for the caller: %v", method, got)
		}
	}
	if got := as("some")("resources/read", `"uri":"skill://a/generated/a/references/tool-a-secret.md"`); got.err == nil || proxy.AsError(got.err).Code != -32602 {
		t.Errorf("a file about a hidden tool: %v", got)
	}
}

// Without the setting, and for legacy clients, the methods are those of any extension, and no capability is added.
func TestSkillsAreOff(t *testing.T) {
	for _, mode := range []view.Skills{view.NoSkills, view.MembersSkills, view.GeneratedSkills} {
		tools := newScript(true, `{"tools":{}}`)
		tools.lists(`{"name":"t","inputSchema":{"type":"object"}}`, "", "")
		r := scriptRig(t, Options{Skills: mode}, tools, newScript(true, `{}`))
		peer := r.newPeer(false)
		for _, method := range []string{"skills/list", "skills/get", "resources/directory/read"} {
			if got := peer.call(method, `"uri":"skill://a/generated/a/SKILL.md"`); nameOf(got.err) != "method_not_found" {
				t.Errorf("%v: a legacy client's %s: %v", mode, method, got)
			}
			if got := r.call(method, `"uri":"skill://a/generated/a/SKILL.md"`); mode != view.GeneratedSkills && nameOf(got.err) != "method_not_found" {
				t.Errorf("%v: %s: %v", mode, method, got)
			}
		}
		if caps := r.call("server/discover", "").at("capabilities"); strings.Contains(caps, "skills") != (mode == view.GeneratedSkills) {
			t.Errorf("%v: %s", mode, caps)
		}
	}
}

// URIs of skills are told apart wherever they are: in lists, templates, and results.
func TestSkillURIsInLists(t *testing.T) {
	var all []*script
	for range 2 {
		s := skilled(true, entry("one", "one"))
		s.lists("", `{"uri":"skill://one/SKILL.md","name":"one"},{"uri":"demo://x","name":"x"}`, `{"uriTemplate":"skill://one/{file}","name":"t"}`)
		all = append(all, s)
	}
	r := scriptRig(t, Options{Skills: view.MembersSkills}, all...)
	if got := r.call("resources/list", "").keysOf("resources", "uri"); len(got) != 4 || got[0] != "skill://a/one/SKILL.md" || got[2] != "skill://b/one/SKILL.md" {
		t.Errorf("%q", got)
	}
	if got := r.call("resources/templates/list", "").keysOf("resourceTemplates", "uriTemplate"); !slices.Equal(got, []string{"skill://a/one/{file}", "skill://b/one/{file}"}) {
		t.Errorf("%q", got)
	}
	has(t, r.call("resources/read", `"uri":"skill://b/one/SKILL.md"`).raw, `"uri":"skill://b/one/SKILL.md"`)
	has(t, all[1].hears(t, "resources/read"), `"uri":"skill://one/SKILL.md"`)
	has(t, r.as("", `{}`, "resources/read", `"uri":"skill://one/SKILL.md",`+toServer(`"b"`)).raw, `"uri":"skill://b/one/SKILL.md"`)
	has(t, all[1].hears(t, "resources/read"), `"uri":"skill://one/SKILL.md"`)
}

// Many clients at once are served the same bytes.
func TestSkillsAtOnce(t *testing.T) {
	tools := newScript(true, `{"tools":{}}`)
	tools.lists(`{"name":"t","inputSchema":{"type":"object"}}`, "", "")
	r := scriptRig(t, Options{Skills: view.GeneratedSkills}, tools, skilled(true, entry("one", "one")))
	want := r.call("skills/list", "").raw
	var group sync.WaitGroup
	for range 8 {
		ex := exchange(t, "skills/list", "")
		group.Go(func() {
			if got := drain(r.Do(ex)); got.raw != want {
				t.Errorf("%v, want %s", got, want)
			}
		})
	}
	group.Wait()
}
