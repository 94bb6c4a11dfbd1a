package policies

import (
	"sync"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Listens bounds the listens that are open at a time, each of which holds a connection: all of them, and those of one principal.
// Anonymous clients are no principal. 0 is no bound; without any it is nil.
func Listens(all, perPrincipal int) proxy.Policy {
	if all == 0 && perPrincipal == 0 {
		return nil
	}
	l := &listens{all: all, each: perPrincipal, of: make(map[string]int)}
	return func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Msg.Kind != wire.Request || !ex.Msg.Is("subscriptions/listen") {
				return next(ex)
			}
			who := ex.Caller.Principal
			if err := l.enter(who); err != nil {
				return nil, err
			}
			return holding(ex, next, func() { l.leave(who) })
		}
	}
}

type listens struct {
	all, each int

	mu sync.Mutex
	n  int
	of map[string]int
}

func (l *listens) enter(who string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.all > 0 && l.n >= l.all:
		return proxy.Errf(proxy.Busy, "%d listens are open, as many as limits.listens allows", l.n)
	case l.each > 0 && who != "" && l.of[who] >= l.each:
		return proxy.Errf(proxy.Busy, "%d listens of this caller are open, as many as limits.listens_per_principal allows", l.of[who])
	}
	l.n++
	l.of[who]++
	return nil
}

func (l *listens) leave(who string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n--
	if l.of[who]--; l.of[who] == 0 {
		delete(l.of, who)
	}
}
