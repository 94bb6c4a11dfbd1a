package everything

import (
	"encoding/base64"
	"strconv"
	"strings"

	"dragoman/conformance/everything/changes"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// sometimes and sometimesURI are the name and the URI of the entry that is only sometimes in its list.
const (
	sometimes    = "test_sometimes"
	sometimesURI = "test://sometimes"
)

// isShown reports whether the list has that entry now.
func (s *Server) isShown(t changes.Topic) bool { return s.shown[t].Load()%2 == 1 }

// flip shows or hides the entry, notifies subscribers, and reports whether the entry is shown now.
func (s *Server) flip(t changes.Topic) bool {
	now := s.shown[t].Add(1)%2 == 1
	s.subscribers.Publish(changes.Notice{Topic: t})
	return now
}

// list returns the current state of a list.
func (s *Server) list(t changes.Topic) *list {
	if s.isShown(t) {
		return &s.lists[t][1]
	}
	return &s.lists[t][0]
}

// setLists renders a list without and with its last item, which is only sometimes in the list.
func (s *Server) setLists(t changes.Topic, items []string, size, ttl int) {
	s.lists[t] = [2]list{s.newList(t.String(), items[:len(items)-1], size, ttl), s.newList(t.String(), items, size, ttl)}
}

// list is one state of a list, with rendered pages.
type list struct {
	pages [2][][]byte    // whole results, by era
	at    map[string]int // page number by cursor
}

// newList renders the items, JSON objects, as pages of the result member called key. The cursors are opaque and differ
// between lists, so that a cursor of another list is unknown.
func (s *Server) newList(key string, items []string, size, ttl int) list {
	l := list{pages: [2][][]byte{}, at: map[string]int{}}
	for from := 0; from == 0 || from < len(items); from += size {
		to := min(from+size, len(items))
		members := `"` + key + `":[` + strings.Join(items[from:to], ",") + `]`
		if to < len(items) {
			cursor := base64.RawURLEncoding.EncodeToString([]byte(key + ":" + strconv.Itoa(to)))
			l.at[cursor] = len(l.pages[proxy.Modern]) + 1
			members += `,"nextCursor":"` + cursor + `"`
		}
		for _, era := range [...]proxy.Era{proxy.Legacy, proxy.Modern} {
			l.pages[era] = append(l.pages[era], s.cacheable(era, members, ttl))
		}
	}
	return l
}

// page answers a list request. An unknown cursor is refused with -32602 (2026-07-28 pagination).
func (l *list) page(era proxy.Era, m *wire.Message) ([]byte, *proxy.Error) {
	if !m.Cursor.Present() {
		return l.pages[era][0], nil
	}
	n, ok := l.at[string(m.Text(m.Cursor))]
	if !ok {
		return nil, proxy.Errf(proxy.InvalidParams, "unknown cursor %s", m.Of(m.Cursor))
	}
	return l.pages[era][n], nil
}
