package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"dragoman/adapters/merge/metatools"
	"dragoman/adapters/search/embedding"
	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
)

const (
	embeddingsTable = "search.embeddings."
	vectorsTable    = "search.vectors."
)

func (c *Config) searchKeys() []setting {
	s := &c.Search
	notation := `a value, "env:NAME" or "file:/path"`
	return []setting{
		{key: embeddingsTable + UrlKey, std: "", doc: "service with OpenAI's API that turns texts into vectors, so that tools are found by meaning as well: the URL below which /embeddings is; empty: none", field: field.Endpoint(&s.URL)},
		{key: embeddingsTable + "model", std: "", doc: "name of the model at the service", field: field.Text{At: &s.Model, Most: maxName, Empty: true, What: "the name of a model"}},
		{key: embeddingsTable + "key", std: "", doc: "key of the service, sent as a bearer token; empty: none", secret: true, field: field.Key{At: &s.Key, What: notation}},
		{key: embeddingsTable + "ca_file", std: "", doc: "PEM file of the roots to trust for the service instead of the system's", field: field.Text{At: &s.CAFile, What: "a PEM file", Empty: true}},
		{key: embeddingsTable + "dimension", std: "0", doc: "dimension of the model's vectors; others are an error", field: field.Int{At: &s.Dimension, Least: 1, Most: embedding.MaxDimension, Zero: "that of the first answer"}},
		{key: embeddingsTable + "path", std: "", doc: "directory of a sentence transformer, such as all-MiniLM-L6-v2 as it is published, that runs inside the process instead; empty: none",
			field: field.Text{At: &s.Path, What: "a directory", Empty: true}},
		{key: embeddingsTable + "timeout", std: "2s", doc: "how long a search waits for the vector of its query before it goes by words alone", field: field.Duration{At: &s.Timeout, Least: 10 * time.Millisecond, Most: 30 * time.Second}},
		{key: vectorsTable + "store", std: VectorsInFile, doc: "where the vectors of tools are: a file beside the catalogue, memory, postgres with pgvector, or qdrant",
			field: field.Enum{At: &s.Vectors, Values: []string{VectorsInFile, InMemory, VectorsInPostgres, VectorsInQdrant}}},
		{key: vectorsTable + UrlKey, std: "", doc: "database, or Qdrant's gRPC address such as http://localhost:6334; empty: catalogue.url", secret: true, field: field.Key{At: &s.VectorsURL, What: notation}},
		{key: vectorsTable + "key", std: "", doc: "API key of the Qdrant; empty: none", secret: true, field: field.Key{At: &s.VectorsKey, What: notation}},
	}
}

// checkSearch reports models and stores that are named twice, or not at all.
func (c *Config) checkSearch(fail func(key string, from value.Source, what, fix string)) {
	s := &c.Search
	at := func(key string) (string, value.Source) { return key, c.sources[key] }
	switch key, from := at(embeddingsTable + UrlKey); {
	case s.URL != "" && s.Path != "":
		fail(key, from, "is set, and "+embeddingsTable+"path as well: there is one model", "remove one of them")
	case s.URL != "" && s.Model == "":
		fail(key, from, "needs the name of a model", "set "+embeddingsTable+"model, such as text-embedding-3-small")
	}
	key, from := at(vectorsTable + "store")
	switch {
	case s.Vectors == VectorsInPostgres && s.VectorsURL.Reveal() == "" && c.Catalogue.URL.Reveal() == "":
		fail(key, from, "needs a database", "set "+vectorsTable+UrlKey+" or "+catalogueURLKey)
	case s.Vectors == VectorsInQdrant && s.VectorsURL.Reveal() == "":
		fail(key, from, "needs an address", "set "+vectorsTable+UrlKey+", such as http://localhost:6334")
	}
}

// Values of [ContextConfig.Mode].
const (
	allTools    = "all"
	searchTools = "search"
)

const (
	contextsKey = "contexts"
	allPath     = "/mcp"
	groupPath   = "/groups/"
)

// modes are the values of context.mode.
var modes = map[string]metatools.Mode{allTools: metatools.All, searchTools: metatools.Search, Auto: metatools.Auto}

// Context returns how an endpoint of several servers lists its tools; group is the group's, nil is that of all servers.
func (c *Config) Context(group *Group) *metatools.Rules {
	at, base := allPath, c.ToolContext
	if group != nil {
		at, base = groupPath+group.Name, c.ToolContext.under(group.Context)
	}
	rules := &metatools.Rules{Rule: base.rule()}
	apply := slices.Clone(c.Contexts)
	slices.SortStableFunc(apply, func(a, b *ClientContext) int {
		return cmp.Or(cmp.Compare(b.conditions(), a.conditions()), cmp.Compare(a.Name, b.Name))
	})
	for _, one := range apply {
		if len(one.Paths) == 0 || slices.Contains(one.Paths, at) {
			rules.Some = append(rules.Some, metatools.Special{Clients: one.Clients, Keys: one.Keys, Rule: base.under(one.ContextConfig).rule()})
		}
	}
	return rules
}

// conditions returns how many conditions there are.
func (x *ClientContext) conditions() (n int) {
	for _, list := range [...][]string{x.Clients, x.Keys, x.Paths} {
		n += min(len(list), 1)
	}
	return n
}

// under returns what holds where another context says more.
func (x ContextConfig) under(more ContextConfig) ContextConfig {
	x.Mode, x.Tools, x.Bytes = cmp.Or(more.Mode, x.Mode), cmp.Or(more.Tools, x.Tools), cmp.Or(more.Bytes, x.Bytes)
	if more.Always != nil {
		x.Always = more.Always
	}
	return x
}

func (x ContextConfig) rule() metatools.Rule {
	return metatools.Rule{Mode: modes[x.Mode], Always: x.Always, Tools: x.Tools, Bytes: x.Bytes}
}

func (c *Config) contextKeys() []setting {
	return []setting{
		{key: "context.mode", std: allTools, doc: "what the list of tools of several servers holds: all; search, then find_tools and its like in their place; auto, then search once there are too many",
			field: field.Enum{At: &c.ToolContext.Mode, Values: []string{allTools, searchTools, Auto}}},
		{key: "context.tools", std: "100", doc: "most tools that auto lists", field: field.Int{At: &c.ToolContext.Tools, Least: 1, Most: maxToolsListed}},
		{key: "context.bytes", std: "100KiB", doc: "most bytes of definitions of tools that auto lists", field: field.Size{At: &c.ToolContext.Bytes, Least: 1 << 10, Most: 1 << 30}},
		{key: "context.always", std: "[]", doc: "tools that search lists as well, as SERVER.NAME", field: alwaysList(&c.ToolContext.Always)},
		{key: contextsKey, doc: "how tools are listed to some clients: clients, keys, paths, mode, tools, bytes, always",
			open: entries[ClientContext]{&c.Contexts, func(x *ClientContext) string { return x.Name }, newContext}.table(contextParts)},
	}
}

// maxToolsListed is the highest context.tools.
const maxToolsListed = 1_000_000

func alwaysList(at *[]string) field.Field {
	return field.List{At: at, Check: func(item string) error { return checkOfServer(item, "a name") },
		What: `a list of SERVER.NAME such as ["github.create_issue", "files.read_*"]`, Most: maxList}
}

// newContext makes the context of some clients.
func newContext(name string) (*ClientContext, error) {
	if !UpstreamName.MatchString(name) || len(name) > maxName {
		return nil, &value.Problem{What: fmt.Sprintf("%q is not a name for a context", value.Shorten(name)), Fix: "use at most 64 lower-case letters, digits, hyphens and underscores, a letter first"}
	}
	return &ClientContext{Name: name}, nil
}

// contextParts returns the keys of the context of some clients.
func contextParts(x *ClientContext) []setting {
	return []setting{
		{key: "clients", doc: "names that client programs give themselves in clientInfo, such as claude-code; empty: all", field: field.List{At: &x.Clients,
			Check: func(item string) error { return checkPattern(item, "a name") }, What: `a list of names such as ["claude-code", "cursor*"]`, Most: maxList}},
		{key: "keys", doc: "names of security.api_keys; empty: all callers", field: field.List{At: &x.Keys, Check: checkKeyName, What: "a list of names of API keys", Most: maxList, Commas: true}},
		{key: "paths", doc: "/mcp, or /groups/NAME; empty: both", field: field.List{At: &x.Paths, Check: checkPath, What: `a list such as ["/mcp", "/groups/coding"]`, Most: maxList, Commas: true}},
		{key: "mode", doc: "context.mode for them", field: field.Enum{At: &x.Mode, Values: []string{"", allTools, searchTools, Auto}}},
		{key: "tools", doc: "context.tools for them", field: field.Int{At: &x.Tools, Least: 1, Most: maxToolsListed, Zero: "as elsewhere"}},
		{key: "bytes", doc: "context.bytes for them", field: field.Size{At: &x.Bytes, Least: 1 << 10, Most: 1 << 30, Zero: "as elsewhere"}},
		{key: "always", doc: "context.always for them", field: alwaysList(&x.Always)},
	}
}

func checkPath(item string) error {
	if name, group := strings.CutPrefix(item, groupPath); item != allPath && !(group && UpstreamName.MatchString(name)) {
		return &value.Problem{What: value.Quote(value.Shorten(item)) + " is no endpoint of several servers", Fix: "write /mcp or /groups/NAME"}
	}
	return nil
}

// checkContexts reports contexts that are about nothing that there is.
func (c *Config) checkContexts(fail func(key string, from value.Source, what, fix string)) {
	servers := func(key string, patterns []string) {
		for _, item := range patterns {
			if server, _, _ := strings.Cut(item, "."); c.Upstream(server) == nil && !c.Aggregator.On() {
				fail(key, c.sources[key], fmt.Sprintf("%q is about a server that there is not", value.Shorten(item)), "begin it with the NAME of an upstream")
			}
		}
	}
	servers("context.always", c.ToolContext.Always)
	for _, g := range c.Groups {
		servers(groupsKey+"."+g.Name+".always", g.Context.Always)
	}
	for _, x := range c.Contexts {
		table := contextsKey + "." + x.Name + "."
		servers(table+"always", x.Always)
		for _, path := range x.Paths {
			name, group := strings.CutPrefix(path, groupPath)
			if group && !slices.ContainsFunc(c.Groups, func(g *Group) bool { return g.Name == name }) {
				fail(table+"paths", c.sources[table+"paths"], fmt.Sprintf("%q is no group", value.Shorten(name)), "name one of "+groupsKey)
			}
		}
		if len(x.Clients)+len(x.Keys)+len(x.Paths) == 0 {
			fail(table+"clients", c.sources[table+"clients"], "no condition is set: it would be about all clients", "set clients, keys or paths, or use context.mode")
		}
	}
}
