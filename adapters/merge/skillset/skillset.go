// Package skillset answers for Agent Skills (SEP-2640) where several servers are one: it lists those of all members with those that Dragoman
// writes itself, and serves the files of the latter.
package skillset

import (
	"context"
	"strconv"
	"time"

	"dragoman/adapters/merge/view"
	"dragoman/adapters/skills"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// The methods of the extension.
const (
	ListMethod      = "skills/list"
	GetMethod       = "skills/get"
	DirectoryMethod = "resources/directory/read"
)

// Is reports whether a method is one of the extension.
func Is(method string) bool {
	return method == ListMethod || method == GetMethod || method == DirectoryMethod
}

// askTime bounds how long members may take for what is put together here.
const askTime = 5 * time.Second

// Asker sends a request to a member on behalf of the client of another request, with all policies of the member, until ctx ends.
type Asker func(ctx context.Context, ex *proxy.Exchange, server, method string, params []wire.Change) (wire.Message, error)

// Set answers the methods of the extension at one endpoint. It has no state, and is safe for concurrent use.
type Set struct {
	Ask       Asker
	Info      []byte // serverInfo, a JSON object
	PageBytes int    // the size from which a list has a further page
}

// Unknown is the error for a skill that nobody serves (SEP-2640, Error Handling).
func Unknown(uri string) *proxy.Error {
	return proxy.Errf(proxy.InvalidParams, "No skill is served at %s; fix: list the skills, and give the URI of a SKILL.md", uri)
}

// noDirectory is the error for a directory that nobody serves.
func noDirectory(uri string) *proxy.Error {
	return proxy.Errf(proxy.InvalidParams, "%s is not a directory of a skill that is served here; fix: write it without a slash at its end, and without the name of a file", uri)
}

// Own answers a request about a skill that Dragoman has written: skills/get, resources/directory/read, or resources/read of a file. own is
// false for requests about anything else.
func (s *Set) Own(ex *proxy.Exchange, v *view.View) (_ proxy.Replies, own bool, _ error) {
	m := &ex.Msg
	uri := string(m.Text(m.URI))
	server, root, path, ok := generatedAt(v, uri)
	if !ok {
		return nil, false, nil
	}
	g, err := v.Generated(server)
	if err != nil {
		return nil, true, proxy.Errf(proxy.Internal, "the skill of %s cannot be written: %w", server, err)
	}
	switch {
	case m.Is(GetMethod):
		if path != skills.Main {
			return nil, true, Unknown(uri)
		}
		entry, err := g.Entry(root)
		if err != nil {
			return nil, true, proxy.Errf(proxy.Internal, "the skill of %s cannot be described: %w", server, err)
		}
		return s.answer(ex, hints(g.TTL, g.Private, wire.Change{Key: "skill", Value: entry})), true, nil
	case m.Is(DirectoryMethod):
		d := directory{at: uri}
		for _, f := range g.Files {
			d.add(root+"/"+f.Path, f.MIME)
		}
		if len(d.names) == 0 {
			return nil, true, noDirectory(uri)
		}
		return s.answer(ex, []wire.Change{{Key: "resources", Value: d.json()}}), true, nil
	}
	for _, f := range g.Files {
		if f.Path == path {
			contents := wire.Object([]wire.Change{{Key: "uri", Value: wire.AppendText(nil, uri)}, {Key: "mimeType", Value: wire.AppendText(nil, f.MIME)}, {Key: "text", Value: wire.AppendText(nil, f.Data)}})
			return s.answer(ex, hints(g.TTL, g.Private, wire.Change{Key: "contents", Value: append(append([]byte{'['}, contents...), ']')})), true, nil
		}
	}
	return nil, true, proxy.Errf(proxy.InvalidParams, "Resource not found: %s", uri)
}

// generatedAt returns the server whose generated skill a URI is within, its folder, and the path below that; empty: the folder itself.
func generatedAt(v *view.View, uri string) (server, root, path string, ok bool) {
	server, rest, ok := cutServer(uri)
	if !ok || !v.Generates(server) {
		return "", "", "", false
	}
	root = view.GeneratedRoot(server)
	path, ok = cutFolder("skill://"+server+"/"+rest, root)
	return server, root, path, ok
}

// hints returns members of a result with how it may be cached.
func hints(ttl time.Duration, private bool, all ...wire.Change) []wire.Change {
	scope := `"public"`
	if private {
		scope = `"private"`
	}
	return append(all, wire.Change{Key: "ttlMs", Value: strconv.AppendInt(nil, ttl.Milliseconds(), 10)}, wire.Change{Key: "cacheScope", Value: []byte(scope)})
}

// answer is the response to a request with the members of a result, and those that each result has.
func (s *Set) answer(ex *proxy.Exchange, members []wire.Change, meta ...wire.Change) proxy.Replies {
	meta = append([]wire.Change{{Key: wire.MetaPrefix + "serverInfo", Value: s.Info}}, meta...)
	members = append([]wire.Change{{Key: "resultType", Value: []byte(`"complete"`)}}, append(members, wire.Change{Key: "_meta", Value: wire.Object(meta)})...)
	return proxy.Reply(proxy.ResultMessage(ex.Msg.Of(ex.Msg.ID), wire.Object(members)))
}
