package registry

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-json"

	"dragoman/adapters/aggregator"
	"dragoman/adapters/catalogue"
	"dragoman/adapters/definitions"
	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/merge/deceptive"
	"dragoman/adapters/merge/metatools"
	"dragoman/adapters/merge/names"
	"dragoman/adapters/merge/view"
	"dragoman/internal/app/sorting"
	"dragoman/internal/app/target"
	"dragoman/internal/config"
	"dragoman/internal/config/command"
	"dragoman/internal/config/value"
	"dragoman/policies/health"
)

// Register adds the API of registered servers to the admin listener.
func (r *Registry) Register(s httpserver.Registrar) {
	aggregator.Register(s, aggregator.Options{Open: func() bool { return r.config().Aggregator.On() },
		Servers: r.servers, Register: r.add, Update: r.update, Remove: r.remove, Connect: r.connect, Disconnect: r.disconnect,
		Refresh: func(name string) { r.targets().Reread(name) }, Definitions: aggregator.Definitions{Held: r.held, Approve: r.approve}, Test: r.test, Categories: r.categories(), Search: r.search, Contexts: r.contexts, Events: r.events, Did: r.did})
}

// servers returns all servers as the API shows them, by name.
func (r *Registry) servers(tools bool) []aggregator.Server {
	cfg, targets := r.opt.Now()
	registered, left := r.registrations()
	public := map[string]map[string]string{}
	if tools {
		public = publicTools(cfg, targets)
	}
	var all []aggregator.Server
	for _, t := range targets.All {
		up := cfg.Upstream(t.Name())
		if up.Registration != "" && !slices.ContainsFunc(registered, func(one catalogue.Registration) bool { return one.ID == up.Registration }) {
			continue // it was removed, and the next generation does not have it
		}
		s := aggregator.Server{ID: t.Name(), Name: t.Name(), Source: aggregator.Configuration, Transport: transportOf(up)}
		report := t.Monitor.Now()
		s.Status, s.Failures, s.LastError, s.Took, s.CheckedAt = string(report.State), report.Failures, report.LastError, report.Took.Milliseconds(), instant(report.CheckedAt)
		if report.State == health.Errored {
			s.Error = report.LastError
		}
		s.Held = t.Definitions().Count()
		s.HealthURL = value.RedactURL(up.Health.CheckURL)
		if of := catalogued(targets, t.Name()); of != nil {
			s.ID, s.Registered, s.Connected = of.ID, instant(of.Registered), instant(of.Status.ConnectedAt)
			fill(&s, of, public[t.Name()], tools, t.Definitions(), targets.Sorter)
		}
		all = append(all, s)
	}
	for i := range registered {
		all = describe(all, &registered[i], left[registered[i].Name])
	}
	elsewhere := r.elsewhere()
	for i := range all {
		if of := elsewhere[all[i].ID]; len(of) > 0 {
			addElsewhere(&all[i], of)
		}
	}
	slices.SortFunc(all, func(a, b aggregator.Server) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// describe adds what is registered of a server. One that is left out has no target.
func describe(all []aggregator.Server, r *catalogue.Registration, left error) []aggregator.Server {
	at := slices.IndexFunc(all, func(s aggregator.Server) bool { return s.Name == r.Name })
	if left != nil || at < 0 {
		all = append(all, aggregator.Server{Name: r.Name, Status: string(health.Errored)})
		at = len(all) - 1
		if left != nil {
			all[at].Error = left.Error()
		}
		if errors.Is(left, config.ErrShadowed) || !r.Wanted {
			all[at].Status = string(health.Disconnected)
		}
	}
	s := &all[at]
	s.ID, s.Source, s.Description, s.Transport, s.HealthURL, s.Disabled = r.ID, aggregator.Registered, r.Description, r.Transport, value.RedactURL(r.HealthURL), r.Disabled
	s.Registered = instant(r.Registered)
	if r.Connection != nil {
		s.Connection = shown(r.Connection)
	}
	return all
}

// shown returns a connection without what may be secret: values of headers and variables that are no references, what the query of an
// address holds, and arguments that have either.
func shown(connection []byte) (c map[string]any) {
	if json.Unmarshal(connection, &c) != nil {
		return nil
	}
	for key, of := range c {
		switch of := of.(type) {
		case map[string]any:
			for name, text := range of {
				if text, ok := text.(string); !ok || !config.OnlyReference(text) {
					of[name] = value.Hidden
				}
			}
		case []any:
			if key == "args" {
				c[key] = command.Shown(arguments(c))
			}
		case string:
			if key == "url" || key == "base_url" {
				c[key] = value.RedactURL(of)
			}
		}
	}
	return c
}

func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// transportOf returns the transport of an upstream in the words of seed 004.
func transportOf(u *config.Upstream) string {
	switch {
	case len(u.Command) > 0:
		return "STDIO"
	case u.Transport == "sse":
		return "SSE"
	}
	if _, _, grpc := u.GRPC(); grpc {
		return "GRPC"
	}
	return "HTTP"
}

// catalogued returns what the catalogue has of a server; nil: nothing.
func catalogued(targets *target.Set, name string) *catalogue.Server {
	if targets.Catalogue == nil {
		return nil
	}
	return targets.Catalogue.Snapshot().Server(name)
}

// fill adds the tools of a server. public has their names for clients.
func fill(s *aggregator.Server, of *catalogue.Server, public map[string]string, tools bool, guard *definitions.Guard, sorter *sorting.Sorter) {
	l := of.Lists[catalogue.Tools]
	if l == nil {
		return
	}
	s.ToolCount = len(l.Items)
	for i := range l.Items {
		if !tools {
			break
		}
		item := &l.Items[i]
		s.Tools = append(s.Tools, toolOf(of, item, public[item.Key], guard, sorter))
	}
}

// toolOf returns a tool as the API shows it. public is its name for clients; empty: they do not see it.
func toolOf(of *catalogue.Server, item *catalogue.Item, public string, guard *definitions.Guard, sorter *sorting.Sorter) aggregator.Tool {
	var definition struct {
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"inputSchema"`
	}
	_ = json.Unmarshal(item.Raw, &definition) // one that a server has written wrongly has neither
	tool := aggregator.Tool{ID: of.ID + "/" + item.Key, Name: public, Original: item.Key, Server: of.Name, Description: definition.Description,
		InputSchema: definition.InputSchema, Definition: item.Raw, Skills: []string{}, Confidences: []float64{}, Enabled: public != "",
		Held: guard.Holds(catalogue.Tools, item.Key)}
	if sorter.Engine() == nil {
		return tool
	}
	c := sorter.Engine().Classification(of.Name, item.Key)
	tool.Classification, tool.Classified, tool.ClassifiedBy = string(c.State), c.State == catalogue.Classified, c.By
	for _, skill := range c.Skills {
		tool.Skills, tool.Confidences = append(tool.Skills, skill.Name), append(tool.Confidences, skill.Confidence)
	}
	if len(tool.Skills) > 0 {
		tool.Primary = tool.Skills[0]
	}
	return tool
}

// search finds tools of all servers for the API.
func (r *Registry) search(ctx context.Context, query, server, category string, limit int) (found []aggregator.FoundTool) {
	cfg, targets := r.opt.Now()
	if targets.Finder == nil {
		return nil
	}
	snap, public := targets.Catalogue.Snapshot(), publicTools(cfg, targets)
	q := metatools.Query{Text: query, Limit: limit, Server: server, Category: category}
	for _, hit := range targets.Finder.Find(ctx, q, func(server, _ string) bool { return targets.Named(server) != nil }) {
		of, t := snap.Server(hit.Server), targets.Named(hit.Server)
		if of == nil || of.Lists[catalogue.Tools] == nil {
			continue
		}
		items := of.Lists[catalogue.Tools].Items
		at := slices.IndexFunc(items, func(item catalogue.Item) bool { return item.Key == hit.Name })
		if at < 0 {
			continue
		}
		tool := toolOf(of, &items[at], public[of.Name][hit.Name], t.Definitions(), targets.Sorter)
		tool.Hidden = append([]deceptive.Finding{}, deceptive.Find(tool.Definition)...)
		found = append(found, aggregator.FoundTool{Tool: tool, Source: aggregator.SourceServer{ID: of.ID, Name: of.Name, Status: string(t.Monitor.Now().State)},
			Score: hit.Score, Why: append([]string{}, hit.Why...)})
	}
	return found
}

// publicTools returns the names of tools for clients, by server and the server's own name.
func publicTools(cfg *config.Config, targets *target.Set) map[string]map[string]string {
	all := map[string]map[string]string{}
	if targets.Catalogue == nil {
		return all
	}
	var entries []names.Name
	for _, s := range targets.Catalogue.Snapshot().Servers {
		up := cfg.Upstream(s.Name)
		if l := s.Lists[catalogue.Tools]; l != nil && up != nil {
			for _, item := range l.Items {
				if !up.Hidden(item.Key) {
					entries = append(entries, names.Name{Server: s.Name, Original: item.Key})
				}
			}
		}
	}
	members := targets.Behind("")
	table := names.New(cfg.Style(nil), members, nil, entries)
	for i, e := range entries {
		if all[e.Server] == nil {
			all[e.Server] = map[string]string{}
		}
		all[e.Server][e.Original] = table.Public(i)
	}
	return all
}

// contexts returns what lists of tools spare clients.
func (r *Registry) contexts() (c aggregator.Contexts) {
	_, targets := r.opt.Now()
	for _, at := range targets.Contexts() {
		for _, size := range at.Sizes {
			c.Contexts = append(c.Contexts, aggregator.Context{Path: at.Path, Clients: size.Clients, Keys: size.Keys, Mode: size.Mode.String(), Short: size.Short,
				Tools: size.AllTools, Bytes: size.AllBytes, ListedTools: size.Tools, ListedBytes: size.Bytes, Spared: size.Spared(), Tokens: view.Tokens(size.Spared())})
		}
	}
	if n := targets.Counts; n != nil {
		c.Lists, c.Listed, c.Spared, c.Searches = n.Lists.Load(), n.Bytes.Load(), n.Spared.Load(), n.Searches.Load()
	}
	return c
}
