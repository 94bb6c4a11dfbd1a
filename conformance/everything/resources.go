package everything

import (
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"

	"dragoman/conformance/everything/changes"
	"dragoman/conformance/everything/content"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// resource is a resource.
type resource struct {
	uri, name, description, mime string
	binary                       bool // body is base64
	ttl                          int  // ttlMs of resources/read
	body                         func(*Server) string
}

// template is a resource template with one variable, called id, between prefix and suffix.
type template struct {
	prefix, suffix, name, description, mime string
	ids                                     []string // values for completion
	body                                    func(id string) string
}

func (t *template) pattern() string { return t.prefix + "{id}" + t.suffix }

// match returns the id in a URI: one path segment, percent-encoded (RFC 6570 §3.2.2).
func (t *template) match(uri string) (string, bool) {
	rest, ok := strings.CutPrefix(uri, t.prefix)
	if !ok {
		return "", false
	}
	segment, ok := strings.CutSuffix(rest, t.suffix)
	if !ok || segment == "" || strings.ContainsAny(segment, "/?#{}") {
		return "", false
	}
	id, err := url.PathUnescape(segment)
	return id, err == nil
}

// counterURI and watchedURI are the resources that change.
const (
	counterURI = "demo://counter"
	watchedURI = "test://watched-resource"
)

// updates increments the counter of a resource, notifies its subscribers, and returns the new count.
func (s *Server) updates(count *atomic.Int64, uri string) int64 {
	n := count.Add(1)
	s.subscribers.Publish(changes.Notice{URI: uri})
	return n
}

func constant(text string) func(*Server) string { return func(*Server) string { return text } }

func resourceTable() []resource {
	png := func(s *Server) string { return s.png }
	count := func(s *Server) string { return strconv.FormatInt(s.touched.Load(), 10) }
	version := func(s *Server) string {
		return "Watched resource content, version " + strconv.FormatInt(s.updated.Load(), 10) + "."
	}
	return []resource{
		{"demo://static/text", "static text", "A text that never changes", "text/plain", false, listTTL, constant("static text")},
		{"demo://static/blob", "static blob", "A picture that never changes", "image/png", true, listTTL, png},
		{counterURI, "counter", "How often the tool touch was called", "text/plain", false, 0, count},
		{"test://static-text", "test static text", "A text for the conformance suite", "text/plain", false, listTTL,
			constant("This is the content of the static text resource.")},
		{"test://static-binary", "test static binary", "A picture for the conformance suite", "image/png", true, listTTL, png},
		{watchedURI, "test watched resource", "A text for the conformance suite to watch", "text/plain", false, 0, version},
		{sometimesURI, "test sometimes", "There only sometimes", "text/plain", false, 0, constant("Here I am.")},
	}
}

func templateTable() []template {
	return []template{
		{"demo://item/", "", "item", "An item by its id", "text/plain", []string{"1", "10", "11", "2", "20"},
			func(id string) string { return "item " + id }},
		{"test://template/", "/data", "test template", "A document by its id, for the conformance suite", "application/json",
			[]string{"1", "12", "123"}, func(id string) string {
				return content.Object("id", content.Quote(id), "templateTest", "true", "data", content.Quote("Data for ID: "+id))
			}},
	}
}

// addResources sets the resources, the templates and their lists.
func (s *Server) addResources(pageSize int) {
	table := resourceTable()
	s.resources = make(map[string]*resource, len(table))
	items := make([]string, 0, len(table))
	for i := range table {
		r := &table[i]
		s.resources[r.uri] = r
		items = append(items, content.Object("uri", content.Quote(r.uri), "name", content.Quote(r.name), "description", content.Quote(r.description), "mimeType", content.Quote(r.mime)))
	}
	s.setLists(changes.Resources, items, pageSize, shownTTL)
	s.templates = templateTable()
	items = items[:0]
	for i := range s.templates {
		t := &s.templates[i]
		items = append(items, content.Object("uriTemplate", content.Quote(t.pattern()), "name", content.Quote(t.name), "description", content.Quote(t.description), "mimeType", content.Quote(t.mime)))
	}
	s.templateList = s.newList("resourceTemplates", items, pageSize, listTTL)
}

// read answers resources/read. An unknown resource is -32602 with data.uri (SEP-2164), -32002 for legacy clients.
func (s *Server) read(era proxy.Era, m *wire.Message) ([]byte, *proxy.Error) {
	if !m.URI.IsString(m.Raw) {
		return nil, proxy.Errf(proxy.InvalidParams, "params.uri must be a string")
	}
	uri := string(m.Text(m.URI))
	if r := s.resource(uri); r != nil {
		kind := "text"
		if r.binary {
			kind = "blob"
		}
		return s.contents(era, uri, r.mime, kind, r.body(s), r.ttl), nil
	}
	if t, id := s.template(uri); t != nil {
		return s.contents(era, uri, t.mime, "text", t.body(id), listTTL), nil
	}
	return nil, notFound(era, uri)
}

func notFound(era proxy.Era, uri string) *proxy.Error {
	e := proxy.Errf(proxy.InvalidParams, "resource not found: %s", uri)
	e.Data = []byte(content.Object("uri", content.Quote(uri)))
	if era == proxy.Legacy {
		e.Code = proxy.CodeResourceNotFound
	}
	return e
}

// resource returns the resource at a URI; nil if there is none now.
func (s *Server) resource(uri string) *resource {
	if uri == sometimesURI && !s.isShown(changes.Resources) {
		return nil
	}
	return s.resources[uri]
}

// template returns the template that a URI matches, and its id; nil if there is none.
func (s *Server) template(uri string) (*template, string) {
	for i := range s.templates {
		t := &s.templates[i]
		if id, ok := t.match(uri); ok {
			return t, id
		}
	}
	return nil, ""
}

// canWatch reports whether a URI can be subscribed to: there is, or may be, a resource.
func (s *Server) canWatch(uri string) bool {
	if _, ok := s.resources[uri]; ok {
		return true
	}
	t, _ := s.template(uri)
	return t != nil
}

func (s *Server) contents(era proxy.Era, uri, mime, kind, body string, ttl int) []byte {
	return s.cacheable(era, `"contents":[`+content.Object("uri", content.Quote(uri), "mimeType", content.Quote(mime), kind, content.Quote(body))+`]`, ttl)
}
