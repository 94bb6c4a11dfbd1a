// Package aggregator serves the API by which servers are registered while Dragoman runs (seed 004, API Contracts), at
// /api/v1/aggregator on the admin listener. It reads and writes JSON; the servers themselves are kept elsewhere.
package aggregator

import (
	"context"
	_ "embed"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-json"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/mcphttp"
	"dragoman/adapters/merge/deceptive"
	"dragoman/proxy"
)

// Path begins the paths of the API.
const Path = "/api/v1/aggregator"

// Scopes of the callers of the API.
const (
	View    = "aggregator:view"    // may see servers
	Operate = "aggregator:operate" // may change them
)

// Server is a server as the API shows it.
type Server struct {
	ID          string         `json:"id"`
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Source      string         `json:"source"` // registered, or configuration: such a server cannot be changed here
	Transport   string         `json:"transport_type"`
	Connection  map[string]any `json:"connection_config,omitempty"` // of a registered server; values that may be secrets are hidden
	Status      string         `json:"status"`
	Error       string         `json:"error_message,omitempty"` // why it is in the status ERROR, or not used at all
	HealthURL   string         `json:"health_check_url,omitempty"`
	CheckedAt   *time.Time     `json:"last_health_check"`
	Took        int64          `json:"response_time_ms"`
	Failures    int            `json:"consecutive_failures"`
	LastError   string         `json:"last_error,omitempty"`
	ToolCount   int            `json:"tool_count"`
	Disabled    []string       `json:"disabled_tools,omitempty"`
	Held        int            `json:"held_definitions"` // that somebody has to approve
	Registered  *time.Time     `json:"registered_at"`
	Connected   *time.Time     `json:"connected_at"`
	Tools       []Tool         `json:"tools,omitempty"`
	// Instances is how the server is for each of several Dragomans that share a database; Status is the best of them then.
	Instances []Instance `json:"instances,omitempty"`
}

// Instance is how a server is for one of several Dragomans.
type Instance struct {
	Name      string     `json:"instance"`
	Status    string     `json:"status"`
	Since     *time.Time `json:"status_since"`
	Connected *time.Time `json:"connected_at"`
	CheckedAt *time.Time `json:"last_health_check"`
	Took      int64      `json:"response_time_ms"`
	Failures  int        `json:"consecutive_failures"`
	LastError string     `json:"last_error,omitempty"`
}

// Tool is a tool of a server.
type Tool struct {
	ID          string          `json:"id"`
	Name        string          `json:"name"` // that clients call it by
	Original    string          `json:"original_name"`
	Server      string          `json:"server"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema,omitempty"`
	Skills      []string        `json:"skill_ids"` // its categories, seed 004, BR-004
	Primary     string          `json:"primary_skill_id,omitempty"`
	// Confidences has the confidence of each of Skills, from 0 to 1.
	Confidences []float64 `json:"skill_confidences"`
	// ClassifiedBy names the classifier that has said so, or is "person".
	ClassifiedBy string `json:"classified_by,omitempty"`
	// Classification is DISCOVERED, CLASSIFYING, CLASSIFIED or UNCLASSIFIED (seed 004, Tool Classification State Machine).
	Classification string `json:"classification_status,omitempty"`
	Classified     bool   `json:"is_classified"`
	Enabled        bool   `json:"enabled"`
	Held           bool   `json:"held"` // somebody has to approve its definition; clients do not see it
	// Hidden is text of its definition that a model reads and people do not see.
	Hidden []deceptive.Finding `json:"hidden_text"`
	// Definition is as the server sent it. It is not shown as a whole.
	Definition []byte `json:"-"`
}

// Registration is a server that is to be registered (seed 004, BR-001).
type Registration struct {
	Name        string          `json:"name,omitempty"`
	Description string          `json:"description"`
	Transport   string          `json:"transport_type"`
	Connection  json.RawMessage `json:"connection_config"`
	HealthURL   string          `json:"health_check_url"`
	AutoConnect bool            `json:"auto_connect,omitempty"`
}

// State is the state of all servers (seed 004, GET /api/v1/aggregator/state).
type State struct {
	Servers      int        `json:"total_servers"`
	Connected    int        `json:"connected_servers"`
	Disconnected int        `json:"disconnected_servers"`
	Errors       int        `json:"error_servers"`
	Tools        int        `json:"total_tools"`
	Classified   int        `json:"classified_tools"`
	Unclassified int        `json:"unclassified_tools"`
	LastSync     *time.Time `json:"last_sync"`
}

// Options configure the API. Its functions return a *Problem for what a caller did wrong; another error is Dragoman's.
type Options struct {
	// Open reports whether the API is served: somebody may call it.
	Open func() bool
	// Servers returns all servers by name, with their tools if wanted.
	Servers func(tools bool) []Server
	// Register adds a server and returns it.
	Register func(ctx context.Context, r *Registration) (Server, error)
	// Update changes the fields of a server that are not nil.
	Update func(ctx context.Context, id string, u *Update) (Server, error)
	// Remove removes a server.
	Remove func(ctx context.Context, id string) error
	// Connect begins to connect a server. It fails with 409 for one that is connected.
	Connect func(ctx context.Context, id string) error
	// Disconnect disconnects a server: at once, or when its running requests have ended, which it waits for.
	Disconnect func(ctx context.Context, id string, force bool) error
	// Refresh begins to read the lists of a server again, by its name.
	Refresh func(name string)
	// Definitions shows and approves definitions that are held.
	Definitions Definitions
	// Test connects to a server that is not registered, once, until ctx is done, and leaves nothing of it behind.
	Test func(ctx context.Context, r *Registration) (Tested, error)
	// Categories shows and changes the categories of tools.
	Categories Categories
	// Search finds tools of all servers, whatever their status is. server and category, if they are not empty, are the names of the only ones.
	Search func(ctx context.Context, query, server, category string, limit int) []FoundTool
	// Contexts returns what lists of tools spare clients.
	Contexts func() Contexts
	// Events tells of changes of servers.
	Events *Events
	// Did is told of each request for a change that its caller may ask for, when it is over, for the audit trail.
	Did func(ctx *fasthttp.RequestCtx, a Action)
}

// Update is a change of a registered server; nil fields stay.
type Update struct {
	Name        *string         `json:"name"`
	Transport   *string         `json:"transport_type"`
	Description *string         `json:"description"`
	Connection  json.RawMessage `json:"connection_config"`
	HealthURL   *string         `json:"health_check_url"`
	Disabled    *[]string       `json:"disabled_tools"`
}

// Action is a request to the API, for the audit trail.
type Action struct {
	Name   string // such as register; empty: it changes nothing
	Server string // its name, or id; empty: none could be read
	// Category is the name of the category of tools that it concerns; empty: none.
	Category string
	Status   int
	Why      string // it was not done; empty: it was
	Began    time.Time
}

// Problem is an answer to a request that was wrong.
type Problem struct {
	Status int
	Detail any // text, or a []Mistake
}

// Error returns the detail in words.
func (p *Problem) Error() string {
	if text, ok := p.Detail.(string); ok {
		return text
	}
	var all []string
	for _, m := range p.Detail.([]Mistake) {
		all = append(all, strings.Join(m.Where, ".")+": "+m.Text)
	}
	return strings.Join(all, "; ")
}

// Mistake is one thing that is wrong with a body or a query.
type Mistake struct {
	Where []string `json:"loc"` // body or query, and the members that lead to it
	Text  string   `json:"msg"`
	Type  string   `json:"type"`
}

// Wrong returns the Problem of one mistake.
func Wrong(text string, where ...string) *Problem {
	return &Problem{fasthttp.StatusUnprocessableEntity, []Mistake{{Where: where, Text: text, Type: "value_error"}}}
}

// api serves requests.
type api struct {
	opt   Options
	tests chan struct{} // has an element for each test that runs
}

// Register adds the API to a server.
func Register(s httpserver.Registrar, opt Options) {
	a := &api{opt: opt, tests: make(chan struct{}, maxTests)}
	for _, route := range []struct {
		method, path, action, scope string
		serve                       func(ctx *fasthttp.RequestCtx) (status int, body any, err error)
	}{
		{"GET", "/servers", "", View, a.list}, {"POST", "/servers", "register", Operate, a.register},
		{"GET", "/servers/{id}", "", View, a.show}, {"PATCH", "/servers/{id}", "update", Operate, a.update}, {"DELETE", "/servers/{id}", "remove", Operate, a.remove},
		{"POST", "/servers/{id}/connect", "connect", Operate, a.connect}, {"POST", "/servers/{id}/disconnect", "disconnect", Operate, a.disconnect},
		{"GET", "/servers/{id}/tools", "", View, a.toolsOf}, {"GET", "/tools", "", View, a.tools}, {"GET", "/search", "", View, a.search}, {"GET", "/contexts", "", View, a.contexts}, {"GET", "/state", "", View, a.state},
		{"POST", "/servers/{id}/refresh", "refresh", Operate, a.refresh}, {"GET", "/openapi.json", "", View, describe},
		{"GET", "/servers/{id}/definitions", "", View, a.held}, {"POST", "/servers/{id}/approve", "approve", Operate, a.approve},
		{"GET", "/categories", "", View, a.categories}, {"PUT", "/categories/{category}", "put_category", Operate, a.putCategory},
		{"DELETE", "/categories/{category}", "remove_category", Operate, a.removeCategory}, {"POST", "/categories/{category}/reset", "reset_category", Operate, a.resetCategory},
		{"POST", "/servers/{id}/classify", "classify", Operate, a.classify}, {"POST", "/reclassify", "reclassify", Operate, a.reclassify},
		{"POST", "/test", "test", Operate, a.test}, {"GET", "/events", "", View, a.events},
	} {
		s.Handle(route.method, Path+route.path, a.guarded(route.action, route.scope, route.serve))
	}
}

// guarded answers a request of a caller that may make it.
func (a *api) guarded(action, scope string, serve func(*fasthttp.RequestCtx) (int, any, error)) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		ctx.Response.Header.Set("Cache-Control", "no-store")
		did := Action{Name: action, Began: time.Now()}
		ctx.SetUserValue(actionValue, action)
		if !a.opt.Open() {
			Refuse(ctx, proxy.Errf(proxy.PathUnknown, "servers cannot be registered: the configuration has no aggregator.keys"))
			return
		}
		who := mcphttp.CallerOf(ctx)
		if who.Rights == nil || !who.Has(scope) {
			Refuse(ctx, proxy.Errf(proxy.InsufficientScope, "this needs the role %s of aggregator.keys", map[string]string{View: "viewer", Operate: "operator"}[scope]))
			return
		}
		status, body, err := serve(ctx)
		if err == errStream { //nolint:errorlint // it is never wrapped
			return
		}
		if err != nil {
			status, body = problem(err)
			did.Why = err.Error()
		}
		if action != "" {
			did.Server, did.Category, did.Status = idOf(ctx), categoryOf(ctx), status
			a.opt.Did(ctx, did)
		}
		answer(ctx, status, body)
	}
}

// actionValue is the key of a request's action among its user values.
const actionValue = "action"

// ActionOf returns the action of a request to the API that got as far as its path, and the server that it names.
func ActionOf(ctx *fasthttp.RequestCtx) Action {
	name, _ := ctx.UserValue(actionValue).(string)
	return Action{Name: name, Server: idOf(ctx)}
}

// description is the OpenAPI document of the API.
//
//go:embed openapi.json
var description json.RawMessage

func describe(*fasthttp.RequestCtx) (int, any, error) { return fasthttp.StatusOK, description, nil }

// problem returns the answer for an error.
func problem(err error) (status int, body any) {
	if p, ok := err.(*Problem); ok { //nolint:errorlint // the functions of Options return it as it is
		return p.Status, struct {
			Detail any `json:"detail"`
		}{p.Detail}
	}
	return fasthttp.StatusServiceUnavailable, struct {
		Detail string `json:"detail"`
	}{err.Error()}
}

func answer(ctx *fasthttp.RequestCtx, status int, body any) {
	ctx.SetStatusCode(status)
	if body == nil {
		return
	}
	raw, err := json.MarshalWithOption(body, json.DisableHTMLEscape())
	if err != nil {
		ctx.SetStatusCode(fasthttp.StatusInternalServerError)
		return
	}
	ctx.SetContentType("application/json")
	ctx.SetBody(raw)
}

// Refuse refuses a request, and notes that (mcphttp.Deny).
func Refuse(ctx *fasthttp.RequestCtx, err *proxy.Error) {
	mcphttp.Deny(ctx, err)
	status, body := problem(&Problem{err.Status, err.Message})
	answer(ctx, status, body)
}

func idOf(ctx *fasthttp.RequestCtx) string {
	id, _ := ctx.UserValue("id").(string)
	return id
}

// find returns a server by its id or name.
func (a *api) find(ctx *fasthttp.RequestCtx, tools bool) (Server, error) {
	id := idOf(ctx)
	for _, s := range a.opt.Servers(tools) {
		if s.ID == id || s.Name == id {
			return s, nil
		}
	}
	return Server{}, NotFound(id)
}

// NotFound is the Problem of a server that is not there.
func NotFound(id string) *Problem {
	return &Problem{fasthttp.StatusNotFound, "Server not found: " + id}
}

func (a *api) list(ctx *fasthttp.RequestCtx) (int, any, error) {
	args := ctx.QueryArgs()
	tools, err := flag(args, "include_tools")
	if err != nil {
		return 0, nil, err
	}
	status := string(args.Peek("status"))
	if status != "" && !slices.Contains(Statuses, status) {
		return 0, nil, Wrong("must be one of "+strings.Join(Statuses, ", "), "query", "status")
	}
	all := slices.DeleteFunc(a.opt.Servers(tools), func(s Server) bool { return status != "" && s.Status != status })
	page, err := paged(ctx, all)
	for _, s := range page {
		inspected(s.Tools)
	}
	return fasthttp.StatusOK, page, err
}

// Statuses are the statuses of servers (seed 004, Server Lifecycle State Machine).
var Statuses = []string{"DISCONNECTED", "CONNECTING", "CONNECTED", "DEGRADED", "ERROR"}

func flag(args *fasthttp.Args, name string) (bool, error) {
	text := string(args.Peek(name))
	if text == "" {
		return false, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, Wrong("must be true or false", "query", name)
	}
	return on, nil
}

// Bounds of pages.
const (
	usualPage = 100
	mostPage  = 1000
)

// paged returns the part of a list that a request asks for by limit and offset, and says in a Link header where the next one is (RFC 8288).
func paged[T any](ctx *fasthttp.RequestCtx, all []T) ([]T, error) {
	number := func(name string, std, least, most int) (int, error) {
		text := string(ctx.QueryArgs().Peek(name))
		if text == "" {
			return std, nil
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			return 0, Wrong("must be a number from "+strconv.Itoa(least)+" to "+strconv.Itoa(most), "query", name)
		}
		return n, nil
	}
	limit, err := number("limit", usualPage, 1, mostPage)
	if err != nil {
		return nil, err
	}
	offset, err := number("offset", 0, 0, 1<<31-1)
	if err != nil {
		return nil, err
	}
	ctx.Response.Header.Set("X-Total-Count", strconv.Itoa(len(all)))
	from := min(offset, len(all))
	to := min(from+limit, len(all))
	if to < len(all) {
		query := url.Values{}
		for key, value := range ctx.QueryArgs().All() {
			query.Set(string(key), string(value))
		}
		query.Set("limit", strconv.Itoa(limit))
		query.Set("offset", strconv.Itoa(to))
		ctx.Response.Header.Set("Link", "<"+string(ctx.Path())+"?"+query.Encode()+`>; rel="next"`)
	}
	return append([]T{}, all[from:to]...), nil
}

func (a *api) show(ctx *fasthttp.RequestCtx) (int, any, error) {
	s, err := a.find(ctx, false)
	return fasthttp.StatusOK, s, err
}

func (a *api) toolsOf(ctx *fasthttp.RequestCtx) (int, any, error) {
	s, err := a.find(ctx, true)
	if err != nil {
		return 0, nil, err
	}
	page, err := paged(ctx, ofCategory(ctx, s.Tools))
	return fasthttp.StatusOK, inspected(page), err
}

func (a *api) tools(ctx *fasthttp.RequestCtx) (int, any, error) {
	var all []Tool
	for _, s := range a.opt.Servers(true) {
		all = append(all, s.Tools...)
	}
	page, err := paged(ctx, ofCategory(ctx, all))
	return fasthttp.StatusOK, inspected(page), err
}

// ofCategory returns the tools that a request asks for: those of the category that it names, or all.
func ofCategory(ctx *fasthttp.RequestCtx, tools []Tool) []Tool {
	category := string(ctx.QueryArgs().Peek("category"))
	return slices.DeleteFunc(tools, func(t Tool) bool { return category != "" && !slices.Contains(t.Skills, category) })
}

// inspected says of tools what people do not see of them.
func inspected(tools []Tool) []Tool {
	for i := range tools {
		tools[i].Hidden = append([]deceptive.Finding{}, deceptive.Find(tools[i].Definition)...)
	}
	return tools
}

func (a *api) state(*fasthttp.RequestCtx) (int, any, error) {
	var s State
	for _, one := range a.opt.Servers(false) {
		s.Servers++
		s.Tools += one.ToolCount
		switch one.Status {
		case "CONNECTED", "DEGRADED":
			s.Connected++
		case "ERROR":
			s.Errors++
		case "DISCONNECTED":
			s.Disconnected++
		}
		if one.CheckedAt != nil && (s.LastSync == nil || one.CheckedAt.After(*s.LastSync)) {
			s.LastSync = one.CheckedAt
		}
	}
	for _, one := range a.opt.Servers(true) {
		for i := range one.Tools {
			if one.Tools[i].Classified {
				s.Classified++
			}
		}
	}
	s.Unclassified = s.Tools - s.Classified
	return fasthttp.StatusOK, s, nil
}
