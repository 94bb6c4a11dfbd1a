package config

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"dragoman/adapters/merge/names"
	"dragoman/adapters/merge/view"
	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
)

// Values of merge, names.prefix and catalogue.path.
const (
	always     = "always"
	onConflict = "conflict"
	never      = "never"
	InMemory   = "memory"

	membersSkills   = "members"
	generatedSkills = "generated"
	noSkills        = "off"
)

// Members returns the servers that are behind the merged endpoint: all but those that are a fallback of another.
func (c *Config) Members() (members []*Upstream) {
	for _, u := range c.Upstreams {
		if !slices.ContainsFunc(c.Upstreams, func(other *Upstream) bool { return other.Health.Fallback == u.Name }) {
			members = append(members, u)
		}
	}
	return members
}

// Merged reports whether /mcp and the paths beside it serve several servers as one. So they do a registered server that is the only one: others
// may come at any time, and its tools are to have the same names then.
func (c *Config) Merged() bool {
	members := c.Members()
	return c.Merge != never && len(members) > 1 || len(members) == 1 && (c.Merge == always || c.Merge == Auto && members[0].Registration != "")
}

// Unnamed returns the only server that is behind /mcp and the paths beside it; nil: there is none, or several are merged.
func (c *Config) Unnamed() *Upstream {
	if all := c.Members(); len(all) == 1 && !c.Merged() {
		return all[0]
	}
	return nil
}

// Style returns how names look; group is the group's, nil is the endpoint of all servers.
func (c *Config) Style(group *Group) names.Style {
	n := c.Names
	if group != nil {
		n = NamesConfig{cmp.Or(group.Names.Prefix, n.Prefix), cmp.Or(group.Names.Separator, n.Separator), cmp.Or(group.Names.Length, n.Length)}
	}
	return names.Style{When: map[string]names.When{always: names.Always, onConflict: names.OnConflict, never: names.Never}[n.Prefix], Separator: n.Separator, Budget: n.Length}
}

func (c *Config) mergeKeys() []setting {
	return []setting{
		{key: "merge", std: Auto, doc: "when the servers are one at /mcp: auto, if there are several or one is registered; always, also if there is one; never, then each is at /servers/NAME only",
			field: field.Enum{At: &c.Merge, Values: []string{Auto, always, never}}},
		{key: "names.prefix", std: always, doc: "when the name of a tool or prompt of several servers begins with that of its server: always, on a conflict, or never",
			field: field.Enum{At: &c.Names.Prefix, Values: []string{always, onConflict, never}}},
		{key: "names.separator", std: names.DefaultSeparator, doc: "what stands between the name of a server and that of its tool", field: separatorField(&c.Names.Separator, false)},
		{key: "names.length", std: "64", doc: "most bytes of such a name; longer ones are shortened", field: field.Int{At: &c.Names.Length, Least: names.MinBudget, Most: names.MaxBudget}},
		{key: "listing.strict", std: "false", doc: "a list of several servers of which a part is not up to date is an error", field: field.Bool{At: &c.Listing.Strict}},
		{key: "listing.grace", std: "5m", doc: "how long the part of a lost server stays in lists, as it was known last",
			field: field.Duration{At: &c.Listing.Grace, Least: time.Second, Most: day, Zero: "it is left out at once"}},
		{key: "listing.first_wait", std: "5s", doc: "how long a client waits for the lists, instructions and capabilities of servers that nothing is known of yet",
			field: field.Duration{At: &c.Listing.FirstWait, Least: time.Millisecond, Most: 5 * time.Minute, Zero: "not at all"}},
		{key: "listing.skills", std: membersSkills, doc: "whose Agent Skills several servers serve: those of members that have some; generated, then one is written for each other server as well; or off",
			field: field.Enum{At: &c.Listing.Skills, Values: []string{membersSkills, generatedSkills, noSkills}}},
		{key: cataloguePathKey, std: "", doc: "file in which what several servers offer is kept over a restart, or memory; empty: a file in the state directory",
			field: field.Text{At: &c.Catalogue.Path, What: "a file, or memory", Empty: true}},
		{key: catalogueURLKey, std: "", doc: "PostgreSQL database that several Dragomans share, in the place of the file; empty: none", secret: true,
			field: field.Key{At: &c.Catalogue.URL, Check: checkDatabase, What: `postgres://USER:PASSWORD@HOST:PORT/DATABASE, "env:NAME" or "file:/path"`}},
		{key: "catalogue.instance", std: "", doc: "name of this Dragoman among those that share the database; empty: the name of the host and a random part",
			field: field.Text{At: &c.Catalogue.Instance, Pattern: instanceName, What: "at most 64 letters, digits and . _ -", Empty: true}},
		{key: "catalogue.definitions", std: Warn, doc: "when a server changes what a model reads of it: follow; warn, then the log says so; or approve, then it is held until an operator approves it",
			field: field.Enum{At: &c.Catalogue.Definitions, Values: []string{Follow, Warn, Approve}}},
		{key: "catalogue.approve_first", std: "false", doc: "under approve, what a server lists first is held as well", field: field.Bool{At: &c.Catalogue.ApproveFirst}},
		{key: groupsKey, doc: "named subsets of the servers, each at /groups/NAME/mcp: servers, tools, prompts, resources, deny_tools, deny_prompts, deny_resources, scopes, prefix, separator, length, strict, context, always",
			open: entries[Group]{&c.Groups, func(g *Group) string { return g.Name }, newGroup}.table(groupParts)},
	}
}

var instanceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// checkDatabase checks the URL of a database. Errors do not show it, since it may hold a password.
func checkDatabase(text string) error {
	if u, err := url.Parse(text); err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql") && u.Host != "" {
		return nil
	}
	return &value.Problem{What: "is no URL of a PostgreSQL database (the value is not shown)", Fix: `write postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=verify-full, or "env:NAME" if a variable has it`}
}

// checkCatalogue reports two places for the catalogue.
func (c *Config) checkCatalogue(fail func(key string, from value.Source, what, fix string)) {
	if c.Catalogue.Path != "" && c.Catalogue.URL.Reveal() != "" {
		fail(catalogueURLKey, c.sources[catalogueURLKey], "is set, and "+cataloguePathKey+" as well: the catalogue is in one place", "remove one of them")
	}
}

var separator = regexp.MustCompile(`^[._-]{1,3}$`)

func separatorField(at *string, empty bool) field.Field {
	return field.Text{At: at, Pattern: separator, Empty: empty, What: `1 to 3 of the characters . _ -, such as "." or "__"`}
}

// newGroup makes a group.
func newGroup(name string) (*Group, error) {
	if !UpstreamName.MatchString(name) || len(name) > maxName {
		return nil, &value.Problem{What: fmt.Sprintf("%q is not a name for a group", value.Shorten(name)), Fix: "use at most 64 lower-case letters, digits, hyphens and underscores, a letter first"}
	}
	return &Group{Name: name}, nil
}

// Skills returns whose Agent Skills several servers serve.
func (c *Config) Skills() view.Skills {
	return map[string]view.Skills{membersSkills: view.MembersSkills, generatedSkills: view.GeneratedSkills}[c.Listing.Skills]
}

// groupParts returns the keys of a group.
func groupParts(g *Group) []setting {
	list := func(key, doc, what string, at *[]string) setting {
		return setting{key: key, doc: doc, field: field.List{At: at, Check: func(item string) error { return checkOfServer(item, what) },
			What: `a list of SERVER.NAME such as ["github.create_issue", "files.read_*"]`, Most: maxList}}
	}
	return []setting{
		{key: "servers", doc: "servers of the group; empty: all", field: field.List{At: &g.Servers, Check: checkServerName, What: "a list of the NAMEs of upstreams", Most: maxList, Commas: true}},
		list("tools", "tools of the group, as SERVER.NAME; empty: all that are not denied", "a name", &g.What.Tools),
		list("prompts", "prompts of the group", "a name", &g.What.Prompts),
		list("resources", "resources of the group, as SERVER.URI", "a URI", &g.What.Resources),
		list("deny_tools", "tools that the group lacks", "a name", &g.What.DenyTools),
		list("deny_prompts", "prompts that the group lacks", "a name", &g.What.DenyPrompts),
		list("deny_resources", "resources that the group lacks", "a URI", &g.What.DenyResources),
		{key: "scopes", doc: "scopes that a caller needs for the group", field: scopeList(&g.Scopes)},
		{key: "prefix", doc: "names.prefix of the group", field: field.Enum{At: &g.Names.Prefix, Values: []string{"", always, onConflict, never}}},
		{key: "separator", doc: "names.separator of the group", field: separatorField(&g.Names.Separator, true)},
		{key: "length", doc: "names.length of the group", field: field.Int{At: &g.Names.Length, Least: names.MinBudget, Most: names.MaxBudget, Zero: "as elsewhere"}},
		{key: "strict", doc: "listing.strict of the group", field: field.Bool{At: &g.Strict}},
		{key: "context", doc: "context.mode of the group", field: field.Enum{At: &g.Context.Mode, Values: []string{"", allTools, searchTools, Auto}}},
		{key: "always", doc: "context.always of the group", field: alwaysList(&g.Context.Always)},
	}
}

func checkServerName(name string) error {
	if !UpstreamName.MatchString(name) {
		return value.Problemf("%q is no NAME of an upstream", value.Shorten(name))
	}
	return nil
}

// checkOfServer checks a pattern SERVER.NAME.
func checkOfServer(item, what string) error {
	server, rest, ok := strings.Cut(item, ".")
	if !ok || !UpstreamName.MatchString(server) {
		return value.Problemf("%q does not begin with the NAME of an upstream and a dot", value.Shorten(item))
	}
	return checkPattern(rest, what)
}

// checkGroups reports groups of servers that there are not, and names of them that lead nowhere.
func (c *Config) checkGroups(fail func(key string, from value.Source, what, fix string)) {
	for _, g := range c.Groups {
		table := groupsKey + "." + g.Name + "."
		in := func(server string) bool {
			return c.Upstream(server) != nil && (len(g.Servers) == 0 || slices.Contains(g.Servers, server))
		}
		for _, server := range g.Servers {
			if c.Upstream(server) == nil {
				fail(table+"servers", c.sources[table+"servers"], fmt.Sprintf("%q is no upstream", value.Shorten(server)), "choose from "+value.OneOf(c.names()))
			}
		}
		for _, part := range groupParts(g) {
			list, ok := part.field.(field.List)
			if !ok || list.At == &g.Servers || list.At == &g.Scopes || list.At == &g.Context.Always {
				continue
			}
			for _, item := range *list.At {
				if server, _, _ := strings.Cut(item, "."); !in(server) {
					fail(table+part.key, c.sources[table+part.key], fmt.Sprintf("%q is about a server that is not in the group", value.Shorten(item)), "begin it with the NAME of a server of the group")
				}
			}
		}
		if len(g.Scopes) > 0 && !c.Authenticates() {
			fail(table+"scopes", c.sources[table+"scopes"], "needs scopes, but nobody is asked who he is: everybody would get in without",
				"ask for credentials, such as with "+apiKeysKey+", or remove it")
		}
	}
}
