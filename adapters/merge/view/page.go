package view

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/era/translate"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// cursor returns the cursor of what follows the entry at place i: it stays valid when members come and go.
func (l *list) cursor(i int) string {
	e := &l.entries[i]
	place := 0
	for j := i; j >= 0 && l.entries[j].Server == e.Server; j-- {
		place++
	}
	return base64.RawURLEncoding.EncodeToString([]byte(e.Server + "\x00" + strconv.Itoa(place) + "\x00" + e.Original))
}

// after returns the place that follows the entry of a cursor, or where it would have been.
func (l *list) after(cursor string) (int, *proxy.Error) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	server, rest, ok := strings.Cut(string(raw), "\x00")
	text, key, more := strings.Cut(rest, "\x00")
	place, perr := strconv.Atoi(text)
	if err != nil || !ok || !more || perr != nil || place < 0 {
		return 0, proxy.Errf(proxy.InvalidParams, "params.cursor is none of this list; list again without it")
	}
	from := 0
	for from < len(l.entries) && l.entries[from].Server < server {
		from++
	}
	to := from
	for to < len(l.entries) && l.entries[to].Server == server {
		if l.entries[to].Original == key {
			return to + 1, nil
		}
		to++
	}
	return min(from+place, to), nil
}

// pageKey is a page in the form for clients of a legacy revision, or for modern ones.
type pageKey struct {
	start   int
	version string
}

// Answer returns the response to a request for a list with the given id, raw JSON: the first page, or the one that follows a cursor. version is
// the revision of a legacy client, empty for a modern one. Answers share the bytes of a page, which must not be changed.
func (v *View) Answer(id []byte, kind catalogue.Kind, cursor *string, version string) (wire.Message, *proxy.Error) {
	return v.answer(id, kind, v.list(kind), cursor, version)
}

func (v *View) answer(id []byte, kind catalogue.Kind, l *list, cursor *string, version string) (wire.Message, *proxy.Error) {
	start := 0
	if cursor != nil {
		var err *proxy.Error
		if start, err = l.after(*cursor); err != nil {
			return wire.Message{}, err
		}
	}
	m := *v.page(kind, l, start, version)
	m.Replace(m.ID, id)
	return m, nil
}

// page returns the response with the entries from a place on, whose id is another.
func (v *View) page(kind catalogue.Kind, l *list, start int, version string) *wire.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := pageKey{start, version}
	if p := l.pages[key]; p != nil {
		return p
	}
	rendered, next := v.render(kind, l, start, version)
	p := translated(rendered, kind, version)
	if l.begins[start] { // a forged cursor may begin one anywhere
		l.pages[key], l.begins[next] = p, true
	}
	return p
}

// translated returns a page as clients of a revision read it; entries are as their servers wrote them.
func translated(page []byte, kind catalogue.Kind, version string) *wire.Message {
	m := proxy.ResultMessage([]byte("0"), page)
	switch {
	case version != "":
		translate.LegacyResult(&m, kind.Method(), version)
	case kind == catalogue.Tools:
		translate.DropExecution(&m, true)
	}
	if _, err := m.Settle(nil); err != nil {
		m = proxy.ErrorMessage([]byte("0"), proxy.Errf(proxy.Internal, "a list made here is no message: %w", err))
	}
	return &m
}

// render makes a page. next is where the following one begins; 0: there is none.
func (v *View) render(kind catalogue.Kind, l *list, start int, version string) (result []byte, next int) {
	b := append(make([]byte, 0, v.room(l, start)), `{"`...)
	b = append(append(b, kind.Member()...), `":[`...)
	empty := len(b)
	i := start
	for ; i < len(l.entries) && (i == start || len(b) < v.of.opt.PageBytes); i++ {
		if version == "" && kind == catalogue.Tools && v.onlyAsTask(&l.entries[i]) {
			continue
		}
		before := len(b)
		if before > empty {
			b = append(b, ',')
		}
		filled := len(b)
		if b = v.rendered(b, kind, l, i); len(b) == filled {
			b = b[:before]
		}
	}
	b = append(b, ']')
	if i < len(l.entries) {
		next = i
		b = wire.AppendText(append(b, `,"nextCursor":`...), l.cursor(i-1))
	}
	scope := `"public"`
	if l.private {
		scope = `"private"`
	}
	b = append(b, `,"resultType":"complete","ttlMs":`...)
	b = strconv.AppendInt(b, l.ttl.Milliseconds(), 10)
	b = append(append(b, `,"cacheScope":`...), scope...)
	meta := []wire.Change{{Key: wire.MetaPrefix + "serverInfo", Value: v.of.opt.Info}}
	if start == 0 {
		meta = append(meta, wire.Change{Key: partsKey, Value: v.stale(kind)}, wire.Change{Key: lessKey, Value: l.less})
	}
	b = append(append(b, `,"_meta":`...), wire.Object(meta)...)
	return append(b, '}'), next
}

// room returns about how many bytes a page has: to let it grow instead takes half of the time of making it.
func (v *View) room(l *list, start int) int {
	const more = 64 // for a prefix of the name, or an edited entry
	size := 1 << 10
	for i := start; i < len(l.entries) && size < v.of.opt.PageBytes; i++ {
		size += len(l.entries[i].raw) + more
	}
	return size
}

// onlyAsTask reports whether modern clients cannot call a tool: it runs only as a task of 2025-11-25, and nobody drives that.
func (v *View) onlyAsTask(e *entry) bool {
	m := v.of.members[e.Server]
	return m != nil && !m.Drives && bytes.Contains(e.raw, []byte(`"execution"`)) &&
		wire.Path(e.raw, wire.Whole(e.raw), "execution", "taskSupport").Is(e.raw, "required")
}

// partsKey is the member of _meta of a list's first page that tells which parts of it are not up to date.
const partsKey = "io.dragoman/servers"

// Late names the servers whose part of a list is not up to date.
func (v *View) Late(kind catalogue.Kind) (all []string) {
	for _, s := range v.snap.Servers {
		if v.members()[s.Name] != nil && (s.Presence != catalogue.There || s.Lists[kind] == nil) {
			all = append(all, s.Name)
		}
	}
	return all
}

// stale describes the members whose part of a list is not up to date; nil: all are. Times are those of the last change, so that a list that
// stays the same stays the same to the byte.
func (v *View) stale(kind catalogue.Kind) []byte {
	var all []byte
	for _, s := range v.snap.Servers {
		of := s.Lists[kind]
		if v.members()[s.Name] == nil || s.Presence == catalogue.There && of != nil {
			continue
		}
		state, since := "not listed yet", time.Time{}
		switch {
		case s.Presence == catalogue.Out:
			state, since = "left out", s.Since
		case of != nil:
			state, since = "last known", of.Fetched
		}
		one := part(s.Name, state)
		if !since.IsZero() {
			one = append(one, wire.Change{Key: "since", Value: wire.AppendText(nil, since.UTC().Format(time.RFC3339))})
		}
		if all == nil {
			all = []byte{'['}
		}
		all = wire.AppendItem(all, wire.Object(one))
	}
	if all == nil {
		return nil
	}
	return append(all, ']')
}

// part describes a server whose part of a list is not up to date.
func part(server, state string) []wire.Change {
	return []wire.Change{{Key: "name", Value: wire.AppendText(nil, server)}, {Key: "list", Value: wire.AppendText(nil, state)}}
}

// LeftOut returns the _meta of a list in which the parts of these servers are missing.
func LeftOut(servers []string) []byte {
	return wire.Object(PartsLeftOut(servers))
}

// PartsLeftOut returns the members of such a _meta; none if no part is missing.
func PartsLeftOut(servers []string) []wire.Change {
	if len(servers) == 0 {
		return nil
	}
	all := []byte{'['}
	for _, server := range servers {
		all = wire.AppendItem(all, wire.Object(part(server, "left out")))
	}
	return []wire.Change{{Key: partsKey, Value: append(all, ']')}}
}
