package everything

import (
	"encoding/base64"
	"strconv"
	"strings"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// list is one of the four lists, its pages rendered beforehand.
type list struct {
	pages [][]byte       // whole results
	at    map[string]int // the page that a cursor stands for
}

// newList renders the items, JSON objects, as pages of the result member called key. The cursors are opaque and differ
// between lists, so that one list's cursor is unknown to another.
func (s *Server) newList(key string, items []string, size int) list {
	l := list{pages: nil, at: map[string]int{}}
	for from := 0; from == 0 || from < len(items); from += size {
		to := min(from+size, len(items))
		members := `"` + key + `":[` + strings.Join(items[from:to], ",") + `]`
		if to < len(items) {
			cursor := base64.RawURLEncoding.EncodeToString([]byte(key + ":" + strconv.Itoa(to)))
			l.at[cursor] = len(l.pages) + 1
			members += `,"nextCursor":"` + cursor + `"`
		}
		l.pages = append(l.pages, s.cacheable(members, listTTL))
	}
	return l
}

// page answers a list request. A cursor that was not given out here is refused with -32602 (2026-07-28 pagination).
func (l *list) page(m *wire.Message) ([]byte, *proxy.Error) {
	if !m.Cursor.Present() {
		return l.pages[0], nil
	}
	n, ok := l.at[string(m.Text(m.Cursor))]
	if !ok {
		return nil, proxy.Errf(proxy.InvalidParams, "unknown cursor %s", m.Of(m.Cursor))
	}
	return l.pages[n], nil
}

// object writes a JSON object from names and raw JSON values, in pairs; members with an empty value are left out.
func object(pairs ...string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.WriteString(quote(pairs[i]))
		b.WriteByte(':')
		b.WriteString(pairs[i+1])
	}
	b.WriteByte('}')
	return b.String()
}
