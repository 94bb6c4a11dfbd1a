// Package checkutil has the helpers of the checks of several kinds of servers: valid requests, reading answers, the tools of the fixtures.
package checkutil

import (
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// ModernHead returns the head of a valid modern request; more sets or drops fields.
func ModernHead(method string, more ...peer.Field) peer.Fields {
	return peer.Fields{{Name: "Content-Type", Value: "application/json"}, {Name: "Accept", Value: "application/json, text/event-stream"},
		{Name: "MCP-Protocol-Version", Value: peer.R2607}, {Name: "Mcp-Method", Value: method}}.With(more...)
}

// ModernBody returns a valid modern request. params are members beside _meta; change may alter _meta.
func ModernBody(id, method string, params peer.Object, change func(meta peer.Object)) string {
	meta := peer.Object{peer.MetaVersion: peer.R2607, peer.MetaCapabilities: peer.Object{}, peer.MetaClient: peer.Object{"name": "dragoman-conformance", "version": "1"}}
	if change != nil {
		change(meta)
	}
	all := peer.Object{"_meta": meta}
	for name, value := range params {
		all[name] = value
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":` + peer.Encode(method) + `,"params":` + peer.Encode(all) + `}`
}

// LegacyHead returns the head of a request in a session of legacy HTTP; more sets or drops fields. c is nil before initialize.
func LegacyHead(c *peer.Conn, more ...peer.Field) peer.Fields {
	f := peer.Fields{{Name: "Content-Type", Value: "application/json"}, {Name: "Accept", Value: "application/json, text/event-stream"}}
	if c != nil && c.Session != "" {
		f = append(f, peer.Field{Name: "Mcp-Session-Id", Value: c.Session})
	}
	if c != nil && c.Revision >= peer.R2506 {
		f = append(f, peer.Field{Name: "MCP-Protocol-Version", Value: c.Revision})
	}
	return f.With(more...)
}

// InitializeParams returns the params of initialize.
func InitializeParams(revision, capabilities string) string {
	return `{"protocolVersion":` + peer.Encode(revision) + `,"capabilities":` + capabilities + `,"clientInfo":{"name":"dragoman-conformance","version":"1"}}`
}

// Initialize returns an initialize with the id 1, without capabilities.
func Initialize(revision string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":` + InitializeParams(revision, "{}") + `}`
}

// Ping returns a ping with an id, which is JSON.
func Ping(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}` }

// List is a list of a server: the capability that declares it, its method, and the members of its items and of their names.
type List struct{ Capability, Method, Member, Key string }

// Lists are all lists; that of templates is the last.
var Lists = [...]List{
	{"tools", "tools/list", "tools", "name"},
	{"prompts", "prompts/list", "prompts", "name"},
	{"resources", "resources/list", "resources", "uri"},
	{"resources", "resources/templates/list", "resourceTemplates", "uriTemplate"},
}

// WantStatus fails the trial unless the status of a response is right.
func WantStatus(t *suite.Trial, res *peer.Response, expected string, right func(int) bool) {
	if !right(res.Status) {
		t.Fail(expected, "status %d", res.Status)
	}
}

// IsStatus returns a function that accepts one status.
func IsStatus(want int) func(int) bool { return func(got int) bool { return got == want } }

// IsSuccess reports whether a status is 2xx.
func IsSuccess(got int) bool { return got/100 == 2 }

// IsClientError reports whether a status is 4xx.
func IsClientError(got int) bool { return got/100 == 4 }
