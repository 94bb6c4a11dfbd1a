package everything

import (
	"strconv"
	"sync"
	"sync/atomic"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// revision is the one protocol revision that this server speaks.
const revision = "2026-07-28"

// listTTL is the ttlMs of what never changes while the server lives.
const listTTL = 300_000

// maxRunning is how many calls may run at one time; more are refused with proxy.Overloaded.
const maxRunning = 4096

// Options is how a Server presents itself. The zero value is usable.
type Options struct {
	Name         string // of serverInfo; empty: "dragoman-demo"
	Version      string // of serverInfo; empty: "dev"
	Instructions string // of server/discover; empty: a sentence on what to try
	PageSize     int    // items on a page of a list; 0 or less: 50
}

// Server is the demonstration server. It is safe for concurrent use.
type Server struct {
	meta      string // result._meta, as JSON
	discover  []byte // the whole result of server/discover
	png, wav  string // base64
	tools     map[string]*tool
	prompts   map[string]*prompt
	resources map[string]*resource
	templates []template

	toolList, promptList, resourceList, templateList list

	calls     atomic.Int64 // calls of tools that exist
	cancelled atomic.Int64 // calls stopped while they ran
	touched   atomic.Int64 // what demo://counter shows

	mu      sync.Mutex
	closed  bool
	running map[*call]struct{}
	workers sync.WaitGroup
}

var _ proxy.Upstream = (*Server)(nil)

// New makes a server. It starts nothing; Close is needed nevertheless, to end the calls that came.
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
		meta:    `{"` + wire.MetaPrefix + `serverInfo":{"name":` + quote(o.Name) + `,"version":` + quote(o.Version) + `}}`,
		png:     picture(),
		wav:     sound(),
		running: map[*call]struct{}{},
	}
	s.discover = s.cacheable(`"supportedVersions":["`+revision+`"],"capabilities":`+
		`{"tools":{},"resources":{},"prompts":{},"completions":{},"logging":{}},"instructions":`+quote(o.Instructions), listTTL)
	s.addTools(o.PageSize)
	s.addResources(o.PageSize)
	s.addPrompts(o.PageSize)
	return s
}

// Do answers one exchange, as proxy.Upstream says. Notifications are taken and ignored. What a client did wrong is
// answered with an error response inside the Replies: -32601 for a method, -32602 for parameters, -32021 for a
// capability. The errors of Do itself are *proxy.Error: ShuttingDown after Close, Overloaded, InvalidRequest for a
// message that is no request.
func (s *Server) Do(ex *proxy.Exchange) (proxy.Replies, error) {
	m := ex.Msg
	if len(m.Edits) > 0 {
		// Whoever is in front may have recorded changes that are to count here.
		settled, err := m.Clone()
		if err != nil {
			return nil, proxy.Errf(proxy.InvalidRequest, "everything: %w", err)
		}
		m = settled
	}
	switch m.Kind {
	case wire.Request:
	case wire.Notification:
		return nil, nil //nolint:nilnil // what proxy.Handler demands for a notification
	default:
		return nil, proxy.Errf(proxy.InvalidRequest, "a %s is no request", m.Kind)
	}
	if s.isClosed() {
		return nil, shutDown()
	}
	if m.Is("tools/call") {
		return s.call(ex, m)
	}
	result, refusal := s.ask(&m)
	if refusal != nil {
		return proxy.Reply(proxy.ErrorMessage(m.Of(m.ID), refusal)), nil
	}
	return proxy.Reply(proxy.ResultMessage(m.Of(m.ID), result)), nil
}

// ask answers every method but tools/call with a whole result.
func (s *Server) ask(m *wire.Message) ([]byte, *proxy.Error) {
	switch method := string(m.Text(m.Method)); method {
	case "server/discover":
		return s.discover, nil
	case "tools/list":
		return s.toolList.page(m)
	case "resources/list":
		return s.resourceList.page(m)
	case "resources/templates/list":
		return s.templateList.page(m)
	case "prompts/list":
		return s.promptList.page(m)
	case "resources/read":
		return s.read(m)
	case "prompts/get":
		return s.prompt(m)
	case "completion/complete":
		return s.complete(m)
	default:
		return nil, proxy.Errf(proxy.MethodNotFound, "method not found: %s", method)
	}
}

// Close ends all running calls and waits until they have ended; their Replies answer proxy.ShuttingDown, as Do does from
// then on. It may be called more than once and never fails.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	for c := range s.running {
		c.end(shutDown())
	}
	s.mu.Unlock()
	s.workers.Wait()
	return nil
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func shutDown() error { return proxy.Errf(proxy.ShuttingDown, "the server is shutting down") }

// result makes a result of the given resultType of its other members, raw JSON without the braces.
func (s *Server) result(kind, members string) []byte {
	b := make([]byte, 0, len(members)+len(s.meta)+len(kind)+32)
	b = append(append(append(b, `{"resultType":"`...), kind...), `",`...)
	b = append(append(b, members...), `,"_meta":`...)
	return append(append(b, s.meta...), '}')
}

// cacheable makes a complete result of one of the six methods that say for how long it holds (2026-07-28 caching,
// SEP-2549). Nothing here depends on who asks, hence the scope.
func (s *Server) cacheable(members string, ttl int) []byte {
	return s.result(complete, members+`,"ttlMs":`+strconv.Itoa(ttl)+`,"cacheScope":"public"`)
}

// quote makes text a JSON string.
func quote(text string) string { return string(wire.AppendText(nil, text)) }
