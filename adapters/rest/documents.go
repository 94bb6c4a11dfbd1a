package rest

import (
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/rest/catalog"
	"dragoman/adapters/rest/mcpcall"
	"dragoman/adapters/rest/openapi"
	"dragoman/proxy"
)

// Bounds of a selection.
const (
	maxOffset = 1<<31 - 1
	maxMatch  = 256 // characters
)

// selection is the document that a request asks for: the part of a list of tools.
type selection struct {
	name   string // of the document
	prefix string // before the paths in it
	some   bool   // the request asks for a part
	offset int    // tools that are left out
	match  string // what name, title or description of the others contains, in lower case
}

// selected reads the selection of a query. Other members of the query mean nothing.
func selected(name string, query *fasthttp.Args) (selection, error) {
	s := selection{name: name}
	offset, match := query.PeekMulti("offset"), query.PeekMulti("match")
	if len(offset) > 1 || len(match) > 1 {
		return s, proxy.Errf(proxy.InvalidParams, "offset and match may be given once each")
	}
	if s.some = len(offset)+len(match) > 0; len(offset) > 0 {
		n, err := strconv.ParseUint(string(offset[0]), 10, 31) // takes no sign
		if err != nil {
			return s, proxy.Errf(proxy.InvalidParams, "offset must be an integer from 0 to %d", maxOffset)
		}
		s.offset = int(n)
	}
	if len(match) > 0 {
		if utf8.RuneCount(match[0]) > maxMatch {
			return s, proxy.Errf(proxy.InvalidParams, "match must have at most %d characters", maxMatch)
		}
		s.match = strings.ToLower(string(match[0]))
	}
	return s, nil
}

// of returns the tools from the offset on, as many as a document describes, and how many tools there are with those before and after.
func (s selection) of(l *catalog.List) (tools []catalog.Tool, total int) {
	if s.match == "" {
		rest := l.Tools[min(s.offset, len(l.Tools)):]
		return rest[:min(len(rest), openapi.MaxTools)], len(l.Tools)
	}
	for i := range l.Tools {
		t := &l.Tools[i]
		if !s.matches(t.Name) && !s.matches(t.Title) && !s.matches(t.Description) {
			continue
		}
		if total++; total > s.offset && len(tools) < openapi.MaxTools {
			tools = append(tools, *t)
		}
	}
	return tools, total
}

func (s selection) matches(text string) bool { return strings.Contains(strings.ToLower(text), s.match) }

// next is the reference to the document of the tools from offset on, relative to this one.
func (s selection) next(offset int) string {
	ref := s.name + "?offset=" + strconv.Itoa(offset)
	if s.match != "" {
		ref += "&match=" + url.QueryEscape(s.match)
	}
	return ref
}

// document is the answer of an endpoint for one state of a list of tools.
type document struct {
	body []byte
	tag  string // the ETag, quotes included (RFC 9110, 8.8.3)
	next string // reference to the document of the tools that follow; empty: none do
}

// Bytes implements the values of a catalog.Sized.
func (d *document) Bytes() int { return len(d.body) }

// documentKey identifies a document. The service's name is the same for all.
type documentKey struct {
	selection
	server string
	list   catalog.Sum
}

const maxDocuments = 128

// documents caches documents. One is built at a time, which bounds the memory and time that they take: concurrent requests mostly
// want the same one.
type documents struct {
	mu   sync.Mutex
	kept *catalog.Sized[documentKey, *document]
	free chan struct{} // has an element while none is built
}

func newDocuments() *documents {
	c := &documents{kept: catalog.NewSized[documentKey, *document](maxDocuments), free: make(chan struct{}, 1)}
	c.free <- struct{}{}
	return c
}

// of returns a document; build makes it, without its tag, if it is not cached. A caller that leaves does not wait for others.
func (c *documents) of(o *mcpcall.Origin, key documentKey, build func() (*document, error)) (*document, error) {
	if d, ok := c.get(key); ok {
		return d, nil
	}
	if err := o.Wait(c.free); err != nil {
		return nil, err
	}
	defer func() { c.free <- struct{}{} }()
	if d, ok := c.get(key); ok { // built meanwhile
		return d, nil
	}
	d, err := build()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(d.body)
	d.tag = `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept.Put(key, d)
	return d, nil
}

func (c *documents) get(key documentKey) (*document, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept.Get(key)
}
