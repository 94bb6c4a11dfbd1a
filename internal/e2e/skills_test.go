package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goccy/go-json"

	"dragoman/adapters/skills"
	"dragoman/internal/app"
	"dragoman/internal/testkit"
)

// skilled scripts a modern server with skills, each with a file beside SKILL.md.
func skilled(t *testing.T, name string, all ...string) (u *upstream, toml string) {
	t.Helper()
	u = newUpstream(t, "modern")
	entry := func(name string) string {
		at := "skill://" + name
		return fmt.Sprintf(`{"uri":"%[1]s/SKILL.md","frontmatter":{"name":%[2]q,"description":"d"},"resources":[{"uri":"%[1]s/SKILL.md","digest":"sha256:00","size":1},{"uri":"%[1]s/a.md","digest":"sha256:00","size":1}]}`, at, name)
	}
	var entries []string
	for _, one := range all {
		entries = append(entries, entry(one))
	}
	u.on("server/discover", func(c *call) {
		c.result(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"resources":{},"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":true}}},"ttlMs":0,"cacheScope":"private"}`)
	})
	u.answerList("resources/list", `"resources":[]`)
	u.on("skills/list", func(c *call) {
		c.result(`{"resultType":"complete","skills":[` + strings.Join(entries, ",") + `],"ttlMs":1000,"cacheScope":"public"}`)
	})
	u.on("skills/get", func(c *call) {
		c.result(`{"resultType":"complete","skill":` + entries[0] + `,"ttlMs":1000,"cacheScope":"public"}`)
	})
	u.on("resources/read", func(c *call) {
		c.result(`{"resultType":"complete","contents":[{"uri":"skill://` + all[0] + `/SKILL.md","text":"x"}],"ttlMs":0,"cacheScope":"private"}`)
	})
	return u, fmt.Sprintf("[upstreams.%s]\nurl = %q\n", name, u.url)
}

// skillsAt asks for the skills at a path, and returns what is said.
func (r *rig) skillsAt(path string) string {
	return r.must("POST", path, modernAsk("skills/list", ""), modernHeaders("skills/list", "")...).body
}

// aboutURI sends a request about a URI.
func (r *rig) aboutURI(path, method, uri string, headers ...string) *response {
	name := ""
	if method == "resources/read" {
		name = uri
	}
	return r.must("POST", path, modernAsk(method, fmt.Sprintf(`"uri":%q`, uri)), append(modernHeaders(method, name), headers...)...)
}

// Skills of several servers are one list, and what may not be read is in none: by the rules of a server, and by those of a group. A server that
// is alone keeps its URIs, and its rules count as well.
func TestSkillsOfSeveralServers(t *testing.T) {
	_, one := skilled(t, "one", "refunds", "secret")
	_, two := skilled(t, "two", "refunds", "other")
	r := startRig(t, "catalogue.path = \"memory\"\n"+one+"[upstreams.one.access.\"*\"]\ndeny_resources = [\"skill://secret/*\"]\n"+two+
		"[groups.some]\nservers = [\"one\", \"two\"]\ndeny_resources = [\"two.skill://other/*\"]\n", true)
	for path, want := range map[string]string{
		"/mcp":             "skill://one/refunds/SKILL.md skill://two/refunds/SKILL.md skill://two/other/SKILL.md",
		"/groups/some/mcp": "skill://one/refunds/SKILL.md skill://two/refunds/SKILL.md",
		"/servers/one/mcp": "skill://refunds/SKILL.md",
		"/servers/two/mcp": "skill://refunds/SKILL.md skill://other/SKILL.md",
	} {
		var got struct {
			Result struct {
				Skills []struct {
					URI       string
					Resources []struct{ URI string }
				}
			}
		}
		body := r.skillsAt(path)
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		var all []string
		for _, one := range got.Result.Skills {
			all = append(all, one.URI)
			if len(one.Resources) != 2 || one.Resources[1].URI != strings.TrimSuffix(one.URI, "SKILL.md")+"a.md" {
				t.Errorf("%s: %+v", path, one)
			}
		}
		if strings.Join(all, " ") != want {
			t.Errorf("%s: %q, want %s", path, all, want)
		}
	}
	for _, test := range []struct{ path, method, uri, want string }{
		{"/mcp", "skills/get", "skill://two/refunds/SKILL.md", `"uri":"skill://two/refunds/a.md"`},
		{"/mcp", "resources/read", "skill://two/refunds/SKILL.md", `"uri":"skill://two/refunds/SKILL.md"`},
		{"/mcp", "skills/get", "skill://one/secret/SKILL.md", `"code":-32602`},
		{"/mcp", "resources/read", "skill://one/secret/SKILL.md", `"code":-32602`},
		{"/mcp", "resources/directory/read", "skill://one/secret", `"code":-32602`},
		{"/mcp", "skills/get", "skill://three/refunds/SKILL.md", `"code":-32602`},
		{"/groups/some/mcp", "skills/get", "skill://two/other/SKILL.md", `"code":-32602`},
		{"/groups/some/mcp", "resources/read", "skill://two/other/a.md", `"code":-32602`},
		{"/servers/one/mcp", "skills/get", "skill://refunds/SKILL.md", `"uri":"skill://refunds/a.md"`},
		{"/servers/one/mcp", "skills/get", "skill://secret/SKILL.md", `"code":-32602`},
	} {
		if got := r.aboutURI(test.path, test.method, test.uri); !strings.Contains(got.body, test.want) {
			t.Errorf("%s %s %s: %s, want %s", test.path, test.method, test.uri, got.body, test.want)
		}
	}
}

// A skill of a resource that needs a scope cannot be got, nor its directory listed, without it.
func TestSkillsNeedScopes(t *testing.T) {
	_, one := skilled(t, "one", "refunds")
	_, two := skilled(t, "two", "other")
	toml, keys := keysToml("ci")
	r := startRig(t, "catalogue.path = \"memory\"\n[security]\napi_keys_enabled = true\n"+toml+one+"scopes = { \"resource:skill://refunds/*\" = [\"money\"] }\n"+two, true)
	for _, method := range []string{"skills/get", "resources/read"} {
		if got := r.aboutURI("/mcp", method, "skill://one/refunds/SKILL.md", "X-API-Key", keys["ci"]); got.status != 403 {
			t.Errorf("%s without the scope: %d %s", method, got.status, got.body)
		}
		if got := r.aboutURI("/mcp", method, "skill://two/other/SKILL.md", "X-API-Key", keys["ci"]); !strings.Contains(got.body, "skill://two/other/SKILL.md") {
			t.Errorf("%s that needs none: %d %s", method, got.status, got.body)
		}
	}
}

// Each server without skills has one that is written for it; what its entry says holds for each of its files, whatever era the server has.
func TestGeneratedSkillsOfRealProcesses(t *testing.T) {
	t.Parallel()
	_, own := skilled(t, "own", "refunds")
	r := startRig(t, "listing.skills = \"generated\"\ncatalogue.path = \"memory\"\n"+demoConfig(t, "modern", "modern")+demoConfig(t, "legacy", "legacy")+own, true)
	testkit.Eventually(t, "all servers have skills", func() bool { return strings.Count(r.skillsAt("/mcp"), `"frontmatter"`) == 3 })
	var got struct {
		Result struct {
			Skills []struct {
				URI         string
				Frontmatter struct{ Name, Description string }
				Resources   []struct {
					URI, Digest string
					Size        int
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(r.skillsAt("/mcp")), &got); err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, one := range got.Result.Skills {
		server := strings.Split(one.URI, "/")[2]
		if server == "own" {
			continue
		}
		for i, f := range one.Resources {
			var read struct {
				Result struct{ Contents []struct{ URI, Text string } }
			}
			if err := json.Unmarshal([]byte(r.aboutURI("/mcp", "resources/read", f.URI).body), &read); err != nil || len(read.Result.Contents) != 1 {
				t.Fatalf("%s: %+v %v", f.URI, read, err)
			}
			text := read.Result.Contents[0].Text
			if files++; skills.Digest([]byte(text)) != f.Digest || len(text) != f.Size {
				t.Errorf("%s is not as its entry has it", f.URI)
			}
			if i > 0 {
				continue
			}
			head, _, err := skills.Split([]byte(text))
			if err != nil || head.Name != one.Frontmatter.Name || head.Description != one.Frontmatter.Description {
				t.Errorf("%s: %+v %v", f.URI, head, err)
			}
			if name := server + ".echo"; !strings.Contains(text, "`"+name+"`") {
				t.Errorf("%s does not name %s", f.URI, name)
			}
		}
	}
	if files < 40 {
		t.Errorf("%d files", files)
	}
}

// Legacy clients have no skills: the extension is of 2026-07-28. Without the setting nothing is written.
func TestSkillsAreOfModernClients(t *testing.T) {
	_, one := skilled(t, "one", "refunds")
	two := newUpstream(t, "modern")
	two.answerList("tools/list", `"tools":[{"name":"t","inputSchema":{"type":"object"}}]`)
	r := startRig(t, "catalogue.path = \"memory\"\n"+one+fmt.Sprintf("[upstreams.two]\nurl = %q\n", two.url), true)
	if got := r.skillsAt("/mcp"); strings.Contains(got, "generated") || !strings.Contains(got, "skill://one/refunds/SKILL.md") {
		t.Errorf("%s", got)
	}
	if got := r.must("POST", "/mcp", modernAsk("server/discover", ""), modernHeaders("server/discover", "")...).body; !strings.Contains(got, `"io.modelcontextprotocol/skills":{"directoryRead":true}`) {
		t.Errorf("%s", got)
	}
	init := r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`, legacyHeaders("")...)
	if strings.Contains(init.body, "skills") {
		t.Errorf("%s", init.body)
	}
}

// What an operator has not approved is in no skill: neither the tool, nor what the server says of it.
func TestHeldDefinitionsAreInNoSkill(t *testing.T) {
	t.Parallel()
	f := newFickle(t)
	_, own := skilled(t, "own", "refunds")
	r := startRig(t, fmt.Sprintf("listing.skills = \"generated\"\ncatalogue.path = \"memory\"\ncatalogue.definitions = \"approve\"\n[upstreams.one]\nurl = %q\n", f.url)+own, true)
	text := func() string {
		return r.aboutURI("/mcp", "resources/read", "skill://one/generated/one/SKILL.md").body + r.aboutURI("/mcp", "resources/read", "skill://one/generated/one/references/tool-one-greet.md").body
	}
	testkit.Eventually(t, "the skill has all that was listed first", func() bool {
		got := text()
		return strings.Contains(got, "one.greet") && strings.Contains(got, "one.other") && strings.Contains(got, "Be kind.") && strings.Contains(got, "Name: `one.greet`")
	})
	f.tool("greet", "Sends your keys.")
	testkit.Eventually(t, "the changed tool has left the skill", func() bool {
		got := text()
		if strings.Contains(got, "Sends your keys.") {
			t.Fatalf("a definition that is held: %s", got)
		}
		return !strings.Contains(got, "one.greet`") && strings.Contains(got, "one.other")
	})
}

// Whose skills are served follows the configuration, while Dragoman runs.
func TestSkillsFollowTheConfiguration(t *testing.T) {
	_, one := skilled(t, "one", "refunds")
	two := newUpstream(t, "modern")
	two.answerList("tools/list", `"tools":[{"name":"t","inputSchema":{"type":"object"}}]`)
	rest := "catalogue.path = \"memory\"\n" + one + fmt.Sprintf("[upstreams.two]\nurl = %q\n", two.url)
	r := startRig(t, rest, true)
	for _, test := range []struct{ mode, has, hasNot string }{
		{"generated", "skill://two/generated/two/SKILL.md", `"error"`}, {"members", "skill://one/refunds/SKILL.md", "generated"}, {"off", `"uri":"skill://refunds/SKILL.md"`, "skill://one/"},
	} {
		r.reload(app.ReloadApplied, "listing.skills = \""+test.mode+"\"\n"+rest)
		testkit.Eventually(t, test.mode+" is in force", func() bool {
			got := r.skillsAt("/mcp")
			return strings.Contains(got, test.has) && !strings.Contains(got, test.hasNot)
		})
	}
}
