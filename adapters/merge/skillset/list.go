package skillset

import (
	"context"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"dragoman/adapters/merge/view"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// maxNamed bounds the servers in an error.
const maxNamed = 20

// page is a part of a list: what one server answers.
type page struct {
	server  string
	entries []byte // without brackets
	next    string // the cursor of what follows at the server
	more    bool
	ttl     time.Duration
	private bool
	err     error
}

// List answers skills/list with the skills of all servers that the caller is served, by the names of the servers. A page holds as many whole pages
// of servers as it has room for, and ends with one after which its server has more. A server that fails, or takes longer than 5 s, is left
// out, and _meta says so; with strict it is an error.
func (s *Set) List(ex *proxy.Exchange, v *view.View, strict bool) (proxy.Replies, error) {
	servers, cursor, bad := begins(ex, v.SkillServers())
	if bad != nil {
		return nil, bad
	}
	pages := s.pages(ex, v, servers, cursor)
	if ex.Err() != nil {
		return nil, ex.Err()
	}
	list, ttl, private, next := []byte{'['}, time.Duration(-1), false, []byte(nil)
	var late []string
	for i, p := range pages {
		if p.err != nil {
			late = append(late, p.server)
			continue
		}
		if i > 0 && len(list)+len(p.entries) > s.PageBytes {
			next = wire.AppendText(nil, cursorOf(p.server, "", false))
			break
		}
		if len(p.entries) > 0 {
			list = wire.AppendItem(list, p.entries)
		}
		private = private || p.private
		if ttl < 0 || p.ttl < ttl {
			ttl = p.ttl
		}
		if p.more {
			next = wire.AppendText(nil, cursorOf(p.server, p.next, true))
			break
		}
	}
	if late != nil {
		if strict {
			return nil, proxy.Errf(proxy.Unreachable, "the skills of these servers cannot be listed: %s", strings.Join(late[:min(len(late), maxNamed)], ", "))
		}
		ttl = 0
	}
	result := hints(max(ttl, 0), private, wire.Change{Key: "skills", Value: append(list, ']')}, wire.Change{Key: "nextCursor", Value: next})
	return s.answer(ex, result, view.PartsLeftOut(late)...), nil
}

// begins returns the servers from which a page begins, and the cursor at the first of them.
func begins(ex *proxy.Exchange, all []string) (servers []string, cursor *string, _ *proxy.Error) {
	m := &ex.Msg
	if !m.Cursor.Present() {
		return all, nil, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(string(m.Text(m.Cursor)))
	server, own, more := strings.Cut(string(raw), "\x00")
	if err != nil || server == "" {
		return nil, nil, proxy.Errf(proxy.InvalidParams, "params.cursor is none of this list; list again without it")
	}
	at, found := slices.BinarySearch(all, server)
	if more && found { // else the server has gone
		cursor = &own
	}
	return all[at:], cursor, nil
}

// cursorOf returns a cursor: of what follows at a server, or of its beginning.
func cursorOf(server, own string, within bool) string {
	text := server
	if within {
		text += "\x00" + own
	}
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

// maxAsked bounds the servers that are asked at once.
const maxAsked = 16

// pages returns a page of each server: of the first one what follows cursor, if there is one.
func (s *Set) pages(ex *proxy.Exchange, v *view.View, servers []string, cursor *string) []page {
	ctx, cancel := context.WithTimeout(ex, askTime)
	defer cancel()
	pages := make([]page, len(servers))
	slots := make(chan struct{}, maxAsked)
	var group sync.WaitGroup
	for i, server := range servers {
		p, from := &pages[i], cursor
		p.server = server
		if i > 0 {
			from = nil
		}
		if v.Generates(server) {
			s.generated(v, p)
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			s.asked(ctx, ex, v, p, from)
			<-slots
		})
	}
	group.Wait()
	return pages
}

// generated makes the page of a server whose skill Dragoman has written.
func (s *Set) generated(v *view.View, p *page) {
	g, err := v.Generated(p.server)
	if err == nil {
		p.entries, err = g.Entry(view.GeneratedRoot(p.server))
	}
	p.ttl, p.private, p.err = g.TTL, g.Private, err
}

// asked reads a page of a server.
func (s *Set) asked(ctx context.Context, ex *proxy.Exchange, v *view.View, p *page, from *string) {
	var params []wire.Change
	if from != nil {
		params = []wire.Change{{Key: "cursor", Value: wire.AppendText(nil, *from)}}
	}
	m, err := s.Ask(ctx, ex, p.server, ListMethod, params)
	if err == nil && m.Kind != wire.Result {
		err = proxy.Errf(proxy.BadAnswer, "the server answers %s with the error %d %s", ListMethod, m.ErrorCode, m.Text(m.ErrorText))
	}
	if err != nil {
		p.err = err
		return
	}
	v.SkillURIs(&m, m.Result, p.server)
	if _, err := m.Settle(nil); err != nil {
		p.err = proxy.Errf(proxy.Internal, "an edited reply is no message: %w", err)
		return
	}
	for _, entry := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, "skills")) {
		if !wire.Get(m.Raw, entry, "uri").IsString(m.Raw) {
			continue // it is no entry
		}
		if p.entries != nil {
			p.entries = append(p.entries, ',')
		}
		p.entries = append(p.entries, entry.Of(m.Raw)...)
	}
	if at := wire.Get(m.Raw, m.Result, "nextCursor"); at.IsString(m.Raw) {
		p.next, p.more = string(at.Text(m.Raw)), from == nil || string(at.Text(m.Raw)) != *from
	}
	if ms, err := strconv.ParseInt(string(wire.Get(m.Raw, m.Result, "ttlMs").Of(m.Raw)), 10, 64); err == nil && ms > 0 && ms <= 1<<40 {
		p.ttl = time.Duration(ms) * time.Millisecond
	}
	p.private = !wire.Get(m.Raw, m.Result, "cacheScope").Is(m.Raw, "public")
}
