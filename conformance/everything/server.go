package everything

import (
	"strconv"
	"sync/atomic"

	"dragoman/conformance/everything/calls"
	"dragoman/conformance/everything/changes"
	"dragoman/conformance/everything/content"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// revision is the only modern revision that the server speaks.
const revision = "2026-07-28"

// listTTL is the ttlMs of results that never change, shownTTL that of the lists that do: a client that does not listen
// may be out of date for that long.
const (
	listTTL  = 300_000
	shownTTL = 60_000
)

// Options configures how a Server presents itself. The zero value is usable.
type Options struct {
	Name         string // in serverInfo; empty means "dragoman-demo"
	Version      string // in serverInfo; empty means "dev"
	Instructions string // in server/discover; empty means a sentence on what to try
	PageSize     int    // items on a page of a list; 0 or less means 50
}

// Server is the demonstration server. It is safe for concurrent use.
type Server struct {
	meta      string // result._meta of modern results, as JSON
	discovery string // capabilities and instructions, as members of the result of server/discover and initialize
	info      string // serverInfo, as JSON
	png, wav  string // base64
	tools     map[string]*tool
	prompts   map[string]*prompt
	resources map[string]*resource
	templates []template

	templateList list
	lists        [changes.Topics][2]list      // without and with the entry that is only sometimes shown
	shown        [changes.Topics]atomic.Int64 // how often the entry was shown or hidden; odd means shown

	called  atomic.Int64 // calls of known tools
	touched atomic.Int64 // value of demo://counter
	updated atomic.Int64 // version of watchedURI

	runner      *calls.Runner
	subscribers *changes.Subscribers // of changes
}

var _ proxy.Upstream = (*Server)(nil)

// New returns a server. It starts no goroutine, but Close is needed to end the calls and listens.
func New(o Options) *Server {
	if o.Name == "" {
		o.Name = "dragoman-demo"
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.Instructions == "" {
		o.Instructions = "A demonstration server. Try the tools echo, add and progress, the resource demo://static/text and the prompt greet."
	}
	if o.PageSize <= 0 {
		o.PageSize = 50
	}
	s := &Server{
		info: content.Object("name", content.Quote(o.Name), "version", content.Quote(o.Version)),
		discovery: `"capabilities":{"tools":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},` +
			`"prompts":{"listChanged":true},"completions":{},"logging":{}},"instructions":` + content.Quote(o.Instructions),
		png: content.PNG(),
		wav: content.WAV(),
	}
	s.runner = calls.New(s.result)
	s.subscribers = changes.New(s.canWatch)
	s.meta = `{"` + wire.MetaPrefix + `serverInfo":` + s.info + `}`
	s.addTools(o.PageSize)
	s.addResources(o.PageSize)
	s.addPrompts(o.PageSize)
	return s
}

// Do answers one exchange in its client's era; see proxy.Upstream. notifications/initialized subscribes a legacy session
// to changes of lists; other notifications are ignored. Errors of the client are error responses in the Replies: -32601
// for a method, -32602 for parameters, -32021 for a capability, -32020 for a mirrored parameter. The errors of Do itself
// are *proxy.Error: ShuttingDown after Close, Overloaded, InvalidRequest for a message that is not a request.
func (s *Server) Do(ex *proxy.Exchange) (proxy.Replies, error) {
	m := ex.Msg
	if len(m.Edits) > 0 {
		// The caller may have recorded edits, which apply here.
		settled, err := m.Clone()
		if err != nil {
			return nil, proxy.Errf(proxy.InvalidRequest, "everything: %w", err)
		}
		m = settled
	}
	switch m.Kind {
	case wire.Request:
	case wire.Notification:
		if m.Is("notifications/initialized") && ex.Session != nil {
			s.subscribers.Join(ex.Session)
		}
		return nil, nil //nolint:nilnil // proxy.Handler requires it for a notification
	default:
		return nil, proxy.Errf(proxy.InvalidRequest, "a %s is no request", m.Kind)
	}
	if err := s.runner.Check(); err != nil {
		return nil, err
	}
	switch {
	case m.Is("tools/call"):
		return s.call(ex, m)
	case m.Is("prompts/get"):
		return s.prompt(ex, m)
	case m.Is("subscriptions/listen") && ex.Client.Era == proxy.Modern:
		return s.subscribers.Listen(ex, m)
	}
	result, refusal := s.ask(ex, &m)
	if refusal != nil {
		return refuse(&m, refusal)
	}
	return proxy.Reply(proxy.ResultMessage(m.Of(m.ID), result)), nil
}

// refuse answers with an error response.
func refuse(m *wire.Message, e *proxy.Error) (proxy.Replies, error) {
	return proxy.Reply(proxy.ErrorMessage(m.Of(m.ID), e)), nil
}

// ask answers the methods that have an immediate result.
func (s *Server) ask(ex *proxy.Exchange, m *wire.Message) ([]byte, *proxy.Error) {
	era := ex.Client.Era
	switch method := string(m.Text(m.Method)); method {
	case "tools/list":
		return s.list(changes.Tools).page(era, m)
	case "resources/list":
		return s.list(changes.Resources).page(era, m)
	case "resources/templates/list":
		return s.templateList.page(era, m)
	case "prompts/list":
		return s.list(changes.Prompts).page(era, m)
	case "resources/read":
		return s.read(era, m)
	case "completion/complete":
		return s.complete(era, m)
	default:
		if era == proxy.Legacy {
			return s.askLegacy(ex, m)
		}
		if method == "server/discover" {
			return s.cacheable(era, `"supportedVersions":["`+revision+`"],`+s.discovery, listTTL), nil
		}
		return nil, proxy.Errf(proxy.MethodNotFound, "method not found: %s", method)
	}
}

// Close stops all running calls and waits for their end. Their Replies then return proxy.ShuttingDown, as does Do.
// Listens end with their response. Close may be called more than once and never fails.
func (s *Server) Close() error {
	s.subscribers.Close()
	s.runner.Close()
	return nil
}

// result returns a result with the given members, raw JSON without the braces. A modern result also has its resultType
// and the server's info; a legacy one has neither.
func (s *Server) result(era proxy.Era, kind, members string) []byte {
	b := make([]byte, 0, len(members)+len(s.meta)+len(kind)+32)
	if era == proxy.Legacy {
		return append(append(append(b, '{'), members...), '}')
	}
	b = append(append(append(b, `{"resultType":"`...), kind...), `",`...)
	b = append(append(b, members...), `,"_meta":`...)
	return append(append(b, s.meta...), '}')
}

// cacheable returns a complete result of one of the six methods whose modern results have a lifetime (2026-07-28 caching,
// SEP-2549). No result depends on the caller, so the scope is public.
func (s *Server) cacheable(era proxy.Era, members string, ttl int) []byte {
	if era == proxy.Modern {
		members += `,"ttlMs":` + strconv.Itoa(ttl) + `,"cacheScope":"public"`
	}
	return s.result(era, content.Complete, members)
}
