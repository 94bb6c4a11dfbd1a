package config

import (
	"cmp"
	"strings"
	"time"

	"dragoman/internal/config/value"
)

// NamesConfig says how clients call the tools and prompts of several servers at one endpoint.
type NamesConfig struct {
	// Prefix says when a name begins with that of its server: "always" (default), "conflict" if several servers use the
	// name, or "never". In a group "" is as elsewhere.
	Prefix string
	// Separator stands between the server's name and the tool's: 1 to 3 of the characters . _ -; default ".". In a group
	// "" is as elsewhere.
	Separator string
	// Length is the most bytes of a name; longer ones are shortened. 24 to 128, default 64. In a group 0 is as elsewhere.
	Length int
}

// ListingConfig says how lists of several servers deal with a server that is away, or still starts.
type ListingConfig struct {
	// Skills says whose Agent Skills modern clients are served, see [Config.Skills].
	Skills string
	// Strict makes a list an error while a part of it is not up to date; default false.
	Strict bool
	// Grace is how long the part of a server that was lost is shown as it was known last, up to 24 h, default 5 min; 0 leaves it
	// out at once.
	Grace time.Duration
	// FirstWait is how long a client waits for servers that nothing is known of yet, up to 5 min, default 5 s; 0 does not let it wait.
	FirstWait time.Duration
}

// CatalogueConfig says where what servers offer is kept.
type CatalogueConfig struct {
	// Path is a file, "memory" for none, or "" (default): a file in the state directory.
	Path string
	// URL is that of a PostgreSQL database that several Dragomans may share, in the place of Path; empty (default): none.
	URL value.Secret
	// Instance is the name of this Dragoman among those that share the database; "" (default): the host's name and a random part.
	Instance string
	// Definitions is what happens when a server without a setting of its own changes a definition that a model reads: [Follow],
	// [Warn] (default) or [Approve].
	Definitions string
	// ApproveFirst means that under Approve what a server lists first is held as well; default false.
	ApproveFirst bool
}

// Values of [CatalogueConfig.Definitions] and [PolicyConfig.Definitions].
const (
	Follow  = "follow"  // clients are shown it
	Warn    = "warn"    // so they are, and the log says what has changed
	Approve = "approve" // it is held until an operator has approved it
)

// DefinitionsOf returns the value of definitions that holds for an upstream, and whether what it lists first is held under Approve.
func (c *Config) DefinitionsOf(u *Upstream) (mode string, holdFirst bool) {
	return cmp.Or(u.Definitions, c.Catalogue.Definitions), u.ApproveFirst || c.Catalogue.ApproveFirst
}

// ContextConfig says how the tools of several servers are listed to clients: how much of a model's context they take.
type ContextConfig struct {
	// Mode is "all" for every tool, "search" for find_tools and its like in their place, or "auto" for search once there are too many. In a
	// group or for some clients "" is as elsewhere.
	Mode string
	// Tools and Bytes are the most tools, and bytes of their definitions, that auto lists. For some clients 0 is as elsewhere.
	Tools int
	Bytes int
	// Always are tools that search lists as well, as SERVER.NAME; a trailing * matches any ending.
	Always []string
}

// ClientContext is how tools are listed to some clients: those to which all of its conditions apply.
type ClientContext struct {
	Name    string
	Clients []string // names that client programs give themselves; a trailing * matches any ending; empty: all
	Keys    []string // names of security.api_keys; empty: all callers
	Paths   []string // /mcp, or /groups/NAME; empty: both
	ContextConfig
}

// SearchConfig says how tools are found besides by their words: by meaning, with a model of embeddings. Without URL and Path there is none.
type SearchConfig struct {
	// URL is that of a service with OpenAI's API for embeddings, below which /embeddings is; "" (default): none.
	URL string
	// Model is its name at the service.
	Model string
	// Key is sent to the service as a bearer token; empty (default): none is.
	Key value.Secret
	// CAFile is a PEM file of roots to trust for the service instead of the system's; "": the system's.
	CAFile string
	// Dimension is that of the model's vectors; 0 (default): that of its first answer.
	Dimension int
	// Path is the directory of a sentence transformer that runs inside the process; "" (default): none.
	Path string
	// Timeout is how long a search waits for the vector of its query before it goes by words alone. 10 ms to 30 s, default 2 s.
	Timeout time.Duration
	// Vectors is where the vectors of tools are: "file" (default) beside the catalogue, "memory", "postgres" or "qdrant".
	Vectors string
	// VectorsURL is that of the database, or of the Qdrant; "" (default): catalogue.url.
	VectorsURL value.Secret
	// VectorsKey is the API key of the Qdrant; empty (default): none.
	VectorsKey value.Secret
}

// On reports whether there is a model.
func (s *SearchConfig) On() bool { return s.URL != "" || s.Path != "" }

// Values of [SearchConfig.Vectors].
const (
	VectorsInFile     = "file"
	VectorsInPostgres = "postgres"
	VectorsInQdrant   = "qdrant"
)

// Group is a named subset of the servers, and of what they offer. It is served at /groups/NAME/… under the names that
// several servers have at /mcp.
type Group struct {
	// Name matches [UpstreamName], at most 64 characters.
	Name string
	// Servers are its servers, in any order; empty (default): all [Config.Members].
	Servers []string
	// What limits what clients see and may use. Its patterns are SERVER.NAME, with the server's own name or URI of the
	// thing; a trailing * matches any ending.
	What GrantConfig
	// Scopes are needed for every request to the group.
	Scopes []string
	Names  NamesConfig
	// Strict is as in [ListingConfig]; it holds besides that.
	Strict bool
	// Context says how the group's tools are listed: Mode and Always.
	Context ContextConfig
}

// At returns the group's patterns for a server, as a grant of that server has them. A list of what is allowed that has
// nothing of the server allows nothing there.
func (g *Group) At(server string) GrantConfig {
	own := func(list []string) (of []string) {
		for _, pattern := range list {
			if at, rest, _ := strings.Cut(pattern, "."); at == server {
				of = append(of, rest)
			}
		}
		return of
	}
	allowed := func(list []string) []string {
		if of := own(list); of != nil || len(list) == 0 {
			return of
		}
		return []string{nothing}
	}
	w := &g.What
	return GrantConfig{Principal: "*", Tools: allowed(w.Tools), Prompts: allowed(w.Prompts), Resources: allowed(w.Resources),
		DenyTools: own(w.DenyTools), DenyPrompts: own(w.DenyPrompts), DenyResources: own(w.DenyResources)}
}

// nothing is a pattern that no name and no URI matches: names have no control characters.
const nothing = "\x00"
