package search

import (
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"dragoman/adapters/catalogue"
	"dragoman/proxy/wire"
)

// maxOwned bounds the servers of which the index has lists that belong to one audience.
const maxOwned = 256

// owned indexes what servers list to one audience only, under names that no server has.
type owned struct {
	mu  sync.Mutex
	all *simplelru.LRU[string, *ownedServer]
}

type ownedServer struct {
	of    *catalogue.Server
	sums  map[string]known
	sorts int64 // of the Engine when it was indexed
}

// scope tells which names in the index a caller may be told of.
type scope struct{ instead map[string]string } // by server: its name in the index

// server returns the server of a name in the index; false if the caller sees another list of it.
func (s scope) server(as string) (string, bool) {
	server, _, own := strings.Cut(as, "\x00")
	instead, has := s.instead[server]
	return server, own && has && instead == as || !own && !has
}

// scope makes the index have the lists that some servers show a caller in the place of those in the catalogue.
func (e *Engine) scope(servers []*catalogue.Server) scope {
	if len(servers) == 0 {
		return scope{}
	}
	o := &e.own
	s := scope{make(map[string]string, len(servers))}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all, _ = simplelru.NewLRU(maxOwned, func(as string, _ *ownedServer) { e.index.Delete(as) }) // it fails for a size below one only
	}
	sorts := e.sorts.Load()
	for _, server := range servers {
		as := server.Name + "\x00" + server.For
		s.instead[server.Name] = as
		before, known := o.all.Get(as)
		if known && before.of == server && before.sorts == sorts {
			continue
		}
		if !known {
			before = &ownedServer{of: server}
		}
		same := known && textOf(before.of) == textOf(server)
		o.all.Add(as, &ownedServer{server, e.refresh(as, server, before.sums, same), sorts})
	}
	return s
}

// titleOf returns the title of a serverInfo.
func titleOf(info []byte) string {
	if len(info) == 0 {
		return ""
	}
	return string(wire.Get(info, wire.Whole(info), "title").Text(info))
}
