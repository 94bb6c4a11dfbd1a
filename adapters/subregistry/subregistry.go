// Package subregistry serves the servers of a Dragoman as an MCP registry (API v0.1, server.json 2025-12-11), read only: clients and other
// registries find at it what a caller may use.
package subregistry

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-json"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/mcphttp"
	"dragoman/proxy"
)

// Path is the beginning of the paths of the API.
const Path = "/v0.1/servers"

// Schema is the address of the schema of server.json.
const Schema = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"

// Limits of the API: those of the official registry.
const (
	maxLimit, usualLimit = 100, 30
	maxDescription       = 100 // characters
	maxParameter         = 512 // bytes
)

// Server is a server of Dragoman.
type Server struct {
	Name        string // ours
	Description string // of the operator; empty: there is none
	Version     string // as the server says it; one that is no version is not shown
	// Since is when it was registered or configured; zero: not known.
	Since time.Time
}

// Options configure a [Registry].
type Options struct {
	// Namespace is before the slash of names.
	Namespace string
	// Service is the name of the service.
	Service string
	// Base is the URL under which clients reach the listener; empty: as they say.
	Base string
	// Servers returns the servers that a caller may use.
	Servers func(proxy.Caller) []Server
}

// Changes remembers when servers changed, over configurations. Its zero value is ready; its methods may be called from any goroutine.
type Changes struct {
	mu      sync.Mutex
	began   time.Time
	servers map[string]change
}

type change struct {
	server Server
	at     time.Time
}

// maxChanges bounds the servers that are remembered: far more than a configuration has.
const maxChanges = 100_000

// of returns when a server changed last.
func (c *Changes) of(s *Server, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.began.IsZero() {
		c.began = now
	}
	known, is := c.servers[s.Name]
	switch {
	case is && known.server == *s:
		return known.at
	case is:
		known.at = now
	default:
		if known.at = s.Since; known.at.IsZero() {
			known.at = c.began
		}
	}
	known.server = *s
	if c.servers == nil || len(c.servers) >= maxChanges {
		c.servers = map[string]change{}
	}
	c.servers[s.Name] = known
	return known.at
}

// api serves the API.
type api struct {
	opt     Options
	changes *Changes
}

// Register adds the API to a server.
func Register(s httpserver.Registrar, opt Options, changes *Changes) {
	a := &api{opt, changes}
	for _, method := range []string{fasthttp.MethodGet, fasthttp.MethodHead} {
		s.Handle(method, Path, a.answered(a.list))
		s.Handle(method, Path+"/{rest:*}", a.answered(a.one)) // names have a slash, which is escaped
	}
}

// problem is an answer that says what is wrong (RFC 9457); error is where the generic API has it.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Error  string `json:"error"`
}

func wrong(status int, detail string) *problem {
	return &problem{fasthttp.StatusMessage(status), status, detail, detail}
}

// answered makes the handler of a path.
func (a *api) answered(serve func(ctx *fasthttp.RequestCtx) (any, *problem)) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		status, kind := fasthttp.StatusOK, "application/json"
		body, failed := serve(ctx)
		if failed != nil {
			status, kind, body = failed.Status, "application/problem+json", failed
		}
		raw, err := json.MarshalWithOption(body, json.DisableHTMLEscape())
		if err != nil {
			status, raw = fasthttp.StatusInternalServerError, nil
		}
		if limit := httpserver.ReserveAnswer(ctx, len(raw)); limit != httpserver.AnswersFit {
			mcphttp.Refuse(ctx, mcphttp.Unwritable(limit))
			return
		}
		h := &ctx.Response.Header
		ctx.SetStatusCode(status)
		ctx.SetContentType(kind)
		h.Set("Cache-Control", "private, no-cache") // callers may see different servers
		if status == fasthttp.StatusOK {
			sum := sha256.Sum256(raw)
			tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
			h.Set("ETag", tag)
			if slices.Contains(tags(httpserver.FieldsOf(ctx).PeekAll("If-None-Match")), tag) {
				ctx.SetStatusCode(fasthttp.StatusNotModified)
				h.SetContentType("")
				return
			}
		}
		ctx.Response.SetBodyRaw(raw)
	}
}

// tags returns the entity tags of If-None-Match, as strong ones (RFC 9110, 13.1.2).
func tags(fields [][]byte) (all []string) {
	for _, field := range fields {
		for one := range strings.SplitSeq(string(field), ",") {
			all = append(all, strings.TrimPrefix(strings.TrimSpace(one), "W/"))
		}
	}
	return all
}

type entry struct {
	Server serverJSON `json:"server"`
	Meta   meta       `json:"_meta"`
}

type meta struct {
	Official official `json:"io.modelcontextprotocol.registry/official"`
}

type official struct {
	Status          string    `json:"status"`
	StatusChangedAt time.Time `json:"statusChangedAt"`
	PublishedAt     time.Time `json:"publishedAt"`
	UpdatedAt       time.Time `json:"updatedAt"`
	IsLatest        bool      `json:"isLatest"`
}

type serverJSON struct {
	Schema      string   `json:"$schema"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Version     string   `json:"version"`
	Remotes     []remote `json:"remotes"`
}

type remote struct {
	Type string `json:"type"`
	URL  string `json:"url"`
}

type list struct {
	Servers  []entry  `json:"servers"`
	Metadata metadata `json:"metadata"`
}

type metadata struct {
	Count int    `json:"count"`
	Next  string `json:"nextCursor,omitempty"`
}

// entries returns what the caller may use, by name.
func (a *api) entries(ctx *fasthttp.RequestCtx) ([]entry, *problem) {
	base := a.opt.Base
	if base == "" {
		origin, ok := originOf(ctx)
		if !ok {
			return nil, wrong(fasthttp.StatusBadRequest, "the request names no valid host, which the addresses of servers would have")
		}
		base = origin + mcphttp.PrefixOf(ctx)
	}
	all, now := a.opt.Servers(mcphttp.CallerOf(ctx)), time.Now()
	entries := make([]entry, 0, len(all))
	for i := range all {
		s := &all[i]
		updated := a.changes.of(s, now).UTC().Truncate(time.Microsecond) // as fine as databases of mirrors keep it
		since := updated
		if !s.Since.IsZero() && s.Since.Before(updated) {
			since = s.Since.UTC().Truncate(time.Microsecond)
		}
		entries = append(entries, entry{
			serverJSON{Schema, a.opt.Namespace + "/" + s.Name, a.described(s), version(s.Version), []remote{{"streamable-http", base + proxy.ServerPath(s.Name) + "/mcp"}}},
			meta{official{"active", since, since, updated, true}}})
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.Server.Name, b.Server.Name) })
	return entries, nil
}

// described returns the description of a server, which must not be empty. A server's own words are left out: nobody has approved them.
func (a *api) described(s *Server) string {
	text := strings.Join(strings.Fields(s.Description), " ")
	if text == "" {
		text = s.Name + ", an MCP server behind " + a.opt.Service
	}
	if utf8.RuneCountInString(text) > maxDescription {
		text = string([]rune(text)[:maxDescription-1]) + "…"
	}
	return text
}

// version returns the version of a server, which must be there, and one that means one version to everybody.
func version(text string) string {
	const most = 64
	digits := strings.TrimPrefix(text, "v")
	odd := func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '.' && r != '-' && r != '+'
	}
	if digits == "" || len(text) > most || digits[0] < '0' || digits[0] > '9' || strings.ContainsFunc(digits, odd) || strings.HasSuffix(digits, ".x") || strings.Contains(digits, ".x.") {
		return "0.0.0"
	}
	return text
}

// validHost reports whether a text is the host of a URL, with or without a port.
func validHost(text string) bool {
	const most = 260
	host, port := text, "0"
	if at := strings.LastIndexByte(text, ':'); at > strings.LastIndexByte(text, ']') {
		host, port = text[:at], text[at+1:]
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil || len(text) > most {
		return false
	}
	if inner, ipv6 := strings.CutPrefix(host, "["); ipv6 {
		address, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		return err == nil && address.Is6() && address.Zone() == "" && strings.HasSuffix(inner, "]")
	}
	return host != "" && !strings.ContainsFunc(host, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '.' && r != '-' && r != '_'
	})
}

// originOf returns the scheme and the host of the listener as the client knows them.
func originOf(ctx *fasthttp.RequestCtx) (origin string, ok bool) {
	host, secure := mcphttp.OriginOf(ctx)
	if !validHost(host) {
		return "", false
	}
	if secure {
		return "https://" + host, true
	}
	return "http://" + host, true
}

// query holds the parameters of a request.
type query struct {
	limit                  int
	after, search, version string
	since                  time.Time
}

// asked reads the query of a list. Parameters that are not known mean nothing.
func asked(args *fasthttp.Args) (q query, failed *problem) {
	q.limit = usualLimit
	for name, take := range map[string]func(text string) string{
		"limit": func(text string) (why string) {
			n, err := strconv.ParseUint(text, 10, 16)
			if q.limit = int(n); err != nil || n < 1 || n > maxLimit {
				return "must be from 1 to " + strconv.Itoa(maxLimit)
			}
			return ""
		},
		"cursor": func(text string) string {
			name, err := base64.RawURLEncoding.DecodeString(text)
			if q.after = string(name); err != nil {
				return "is none that this registry has given"
			}
			return ""
		},
		"search": func(text string) string {
			q.search = strings.ToLower(text)
			return ""
		},
		"version": func(text string) string { q.version = text; return "" },
		"updated_since": func(text string) (why string) {
			var err error
			if q.since, err = time.Parse(time.RFC3339, text); err != nil {
				return "must be a time of RFC 3339, such as 2026-01-31T12:00:00Z"
			}
			return ""
		},
	} {
		switch all := args.PeekMulti(name); {
		case len(all) > 1:
			return q, wrong(fasthttp.StatusUnprocessableEntity, name+" may be given once")
		case len(all) == 1 && len(all[0]) > maxParameter:
			return q, wrong(fasthttp.StatusUnprocessableEntity, name+" is too long")
		case len(all) == 1 && len(all[0]) > 0:
			if why := take(string(all[0])); why != "" {
				return q, wrong(fasthttp.StatusUnprocessableEntity, name+" "+why)
			}
		}
	}
	return q, nil
}

// list serves a page of the list.
func (a *api) list(ctx *fasthttp.RequestCtx) (any, *problem) {
	q, failed := asked(ctx.QueryArgs())
	if failed != nil {
		return nil, failed
	}
	all, failed := a.entries(ctx)
	if failed != nil {
		return nil, failed
	}
	page := list{Servers: []entry{}}
	for i := range all {
		e := &all[i]
		switch s := &e.Server; {
		case s.Name <= q.after && q.after != "", q.search != "" && !strings.Contains(strings.ToLower(s.Name), q.search),
			q.version != "" && q.version != "latest" && q.version != s.Version, e.Meta.Official.UpdatedAt.Before(q.since):
			continue
		}
		if len(page.Servers) == q.limit {
			page.Metadata.Next = base64.RawURLEncoding.EncodeToString([]byte(page.Servers[q.limit-1].Server.Name))
			break
		}
		page.Servers = append(page.Servers, *e)
	}
	page.Metadata.Count = len(page.Servers)
	return page, nil
}

// one serves the versions of a server, of which there is one, or that version.
func (a *api) one(ctx *fasthttp.RequestCtx) (any, *problem) {
	unknown := wrong(fasthttp.StatusNotFound, "Server not found")
	rest, ok := strings.CutPrefix(string(httpserver.PathOf(ctx)), Path+"/")
	parts := strings.Split(rest, "/")
	if !ok || len(parts) < 2 || len(parts) > 3 || parts[1] != "versions" {
		return nil, unknown
	}
	name, err := url.PathUnescape(parts[0])
	if err != nil {
		return nil, unknown
	}
	all, failed := a.entries(ctx)
	if failed != nil {
		return nil, failed
	}
	at, found := slices.BinarySearchFunc(all, name, func(e entry, name string) int { return cmp.Compare(e.Server.Name, name) })
	switch {
	case !found:
		return nil, unknown
	case len(parts) == 2:
		return list{all[at : at+1], metadata{Count: 1}}, nil
	}
	if version, err := url.PathUnescape(parts[2]); err != nil || version != "latest" && version != all[at].Server.Version {
		return nil, unknown
	}
	return all[at], nil
}
