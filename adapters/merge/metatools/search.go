package metatools

import (
	"context"
	"strconv"

	"dragoman/adapters/catalogue"
	"dragoman/proxy/wire"
)

// Query asks for tools.
type Query struct {
	Text     string
	Limit    int
	Server   string // only tools of this server; empty: of all
	Category string // only tools of this category; empty: of all
	ReadOnly bool   // only tools that declare to change nothing
	// Own are servers that show the caller other lists than the catalogue has, with these lists.
	Own []*catalogue.Server
}

// Hit is a tool that was found.
type Hit struct {
	Server, Name string // as the server calls it
	Score        float64
	Why          []string // what of the tool matches
	Categories   []string // the first is the primary one
}

// Finder searches the tools of all servers.
type Finder interface {
	// Find returns at most q.Limit tools, the best first. allowed reports whether a tool may be returned. q.Server and q.Category are
	// honoured; q.ReadOnly is the business of allowed. It does not fail: a part that cannot be searched is left out.
	Find(ctx context.Context, q Query, allowed func(server, name string) bool) []Hit
	// NearCategories returns the names of at most limit categories that a query in plain words may be about, the nearest first.
	NearCategories(ctx context.Context, query string, limit int) []string
}

// SearchMethod is the method by which the REST endpoint asks for a search, whatever the context of its callers is. Its params are the arguments
// of find_tools.
const SearchMethod = "io.dragoman/tools/search"

// ParseFind returns the query of the arguments of find_tools, an object at a place of a message. wrong says what is wrong with them; empty: nothing is.
func ParseFind(raw []byte, args wire.Span) (q Query, wrong string) {
	if !args.IsObject(raw) {
		return q, `arguments must have "query", what is to be done, in plain words`
	}
	q.Limit = DefaultLimit
	text := func(key string, to *string) {
		at := wire.Get(raw, args, key)
		switch {
		case wrong != "" || absent(raw, at):
		case !at.IsString(raw):
			wrong = "arguments." + key + " must be a string"
		default:
			*to = string(at.Text(raw))
		}
	}
	text("query", &q.Text)
	text("server", &q.Server)
	text("category", &q.Category)
	if at := wire.Get(raw, args, "limit"); !absent(raw, at) {
		n, err := strconv.Atoi(string(at.Of(raw)))
		if err != nil || n < 1 {
			return q, "arguments.limit must be a number from 1 to " + strconv.Itoa(MaxLimit)
		}
		q.Limit = min(n, MaxLimit)
	}
	if at := wire.Get(raw, args, "read_only"); !absent(raw, at) {
		switch string(at.Of(raw)) {
		case "true":
			q.ReadOnly = true
		case "false":
		default:
			return q, "arguments.read_only must be true or false"
		}
	}
	if wrong == "" && q.Text == "" && q.Server == "" && q.Category == "" {
		wrong = `arguments.query must say what is to be done, in plain words`
	}
	q.Text = cut(q.Text, MaxQuery)
	return q, wrong
}

// ParseDescribe returns the names in the arguments of describe_tools. wrong says what is wrong with them; empty: nothing is.
func ParseDescribe(m *wire.Message) (names []string, wrong string) {
	const want = `arguments.names must be a list of at most 20 names of tools, as find_tools returned them`
	at := wire.Get(m.Raw, m.Arguments, "names")
	if !m.Arguments.IsObject(m.Raw) || !at.Present() {
		return nil, want
	}
	if at.IsString(m.Raw) {
		return []string{string(at.Text(m.Raw))}, ""
	}
	if m.Raw[at.From] != '[' {
		return nil, want
	}
	for _, item := range wire.Items(m.Raw, at) {
		if !item.IsString(m.Raw) || len(names) == MaxDescribed {
			return nil, want
		}
		names = append(names, string(item.Text(m.Raw)))
	}
	if names == nil {
		return nil, want
	}
	return names, ""
}

func absent(raw []byte, at wire.Span) bool {
	return !at.Present() || string(at.Of(raw)) == "null"
}

// cut returns the beginning of a text of at most n characters.
func cut(text string, n int) string {
	for i := range text {
		if n--; n < 0 {
			return text[:i]
		}
	}
	return text
}
