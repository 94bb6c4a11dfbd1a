package access

import (
	"strings"
	"testing"
)

const (
	openSkill   = `{"uri":"skill://open/SKILL.md","frontmatter":{"name":"open"},"resources":[{"uri":"skill://open/SKILL.md"},{"uri":"skill://open/a.md"}]}`
	closedSkill = `{"uri":"skill://closed/SKILL.md","frontmatter":{"name":"closed"},"resources":"dynamic"}`
	mixedSkill  = `{"uri":"skill://mixed/SKILL.md","frontmatter":{"name":"mixed"},"resources":[{"uri":"skill://mixed/SKILL.md"},{"uri":"skill://mixed/closed.md"}]}`
	skillList   = `{"jsonrpc":"2.0","id":1,"result":{"skills":[` + openSkill + `,` + closedSkill + `,` + mixedSkill + `],"ttlMs":5,"cacheScope":"public"}}`
	listSkills  = `{"jsonrpc":"2.0","id":1,"method":"skills/list"}`
)

func getSkill(method, uri string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"uri":"` + uri + `"}}`
}

// Rules about URIs hide skills with one file of which a caller may not read, since the list of a skill's files is complete (SEP-2640).
func TestRulesAboutResourcesHideSkills(t *testing.T) {
	p := newAccess(t, FilterOptions{Grants: map[string]Grant{
		"deny":  {Resources: Names{Deny: []string{"skill://closed/*", "skill://mixed/closed.md"}}},
		"allow": {Resources: Names{Allow: []string{"skill://open/*"}}},
		"none":  {Tools: Names{Deny: []string{"x"}}},
	}})
	for who, want := range map[string]string{"deny": "open", "allow": "open", "none": "open closed mixed"} {
		_, got, err := through(t, p, who, listSkills, skillList)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"open", "closed", "mixed"} {
			if strings.Contains(got, `"name":"`+name+`"`) != strings.Contains(" "+want+" ", " "+name+" ") {
				t.Errorf("%s sees %s, want %s", who, got, want)
			}
		}
		if !strings.Contains(got, `"cacheScope":"private"`) {
			t.Errorf("a filtered result may not be shared: %s", got)
		}
	}
	one := func(skill string) string { return `{"jsonrpc":"2.0","id":1,"result":{"skill":` + skill + `}}` }
	for _, c := range []struct{ who, request, reply, fails, has, hasNot string }{
		{"deny", getSkill("skills/get", "skill://open/SKILL.md"), one(openSkill), "", `"name":"open"`, "error"},
		{"deny", getSkill("skills/get", "skill://closed/SKILL.md"), one(closedSkill), "Resource not found: skill://closed/SKILL.md", "", ""},
		{"deny", getSkill("skills/get", "skill://mixed/SKILL.md"), one(mixedSkill), "", `"code":-32602`, "frontmatter"},
		{"allow", getSkill("skills/get", "skill://mixed/SKILL.md"), one(mixedSkill), "Resource not found", "", ""},
		{"allow", getSkill("resources/directory/read", "skill://open"), `{"jsonrpc":"2.0","id":1,"result":{"resources":[{"uri":"skill://open/a.md"},{"uri":"skill://closed"}]}}`, "", "open/a.md", "closed"},
		{"deny", getSkill("resources/directory/read", "skill://mixed"), `{"jsonrpc":"2.0","id":1,"result":{"resources":[{"uri":"skill://mixed/a"},{"uri":"skill://mixed/closed.md"}]}}`, "", "mixed/a", "closed.md"},
		{"deny", getSkill("resources/directory/read", "skill://closed"), okResult, "Resource not found: skill://closed", "", ""},
		{"allow", getSkill("resources/directory/read", "skill://other"), okResult, "Resource not found", "", ""},
		{"allow", `{"jsonrpc":"2.0","id":1,"method":"resources/directory/read","params":{"uri":7}}`, okResult, "must be a string", "", ""},
		{"deny", getSkill("Skills/Get", "skill://closed/SKILL.md"), okResult, "skills/get", "", ""},
		{"none", getSkill("resources/directory/read", "skill://closed"), okResult, "", "result", ""},
	} {
		seen, got, err := through(t, p, c.who, c.request, c.reply)
		switch {
		case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails) || seen != ""):
			t.Errorf("%s, %s: the server saw %q, %v; want %q", c.who, c.request, seen, err, c.fails)
		case c.fails == "" && (err != nil || !strings.Contains(got, c.has) || c.hasNot != "" && strings.Contains(got, c.hasNot)):
			t.Errorf("%s, %s: %s, %v; want %s and not %s", c.who, c.request, got, err, c.has, c.hasNot)
		}
	}
}

// Renamed URIs are those of clients in skills, too, and the server is asked by its own.
func TestSkillsWithOtherURIs(t *testing.T) {
	p := newAccess(t, FilterOptions{Renamed: Renames{Resources: map[string]string{"skill://open/*": "skill://public/open/*"}}})
	_, got, err := through(t, p, "", listSkills, skillList)
	if err != nil || strings.Count(got, "skill://public/open/") != 3 || !strings.Contains(got, `"uri":"skill://mixed/closed.md"`) {
		t.Errorf("%s, %v", got, err)
	}
	seen, got, err := through(t, p, "", getSkill("skills/get", "skill://public/open/SKILL.md"), `{"jsonrpc":"2.0","id":1,"result":{"skill":`+openSkill+`}}`)
	if err != nil || !strings.Contains(seen, `"skill://open/SKILL.md"`) || strings.Count(got, "skill://public/open/") != 3 {
		t.Errorf("%s, %s, %v", seen, got, err)
	}
	seen, got, err = through(t, p, "", getSkill("resources/directory/read", "skill://public/open"), `{"jsonrpc":"2.0","id":1,"result":{"resources":[{"uri":"skill://open/a.md"}]}}`)
	if err != nil || !strings.Contains(seen, `"skill://open"`) || !strings.Contains(got, "skill://public/open/a.md") {
		t.Errorf("%s, %s, %v", seen, got, err)
	}
	if seen, _, err := through(t, p, "", getSkill("resources/directory/read", "skill://open"), okResult); err == nil {
		t.Errorf("the server's own URI: %s", seen)
	}
}
