package limits

import (
	"sync"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Listens bounds the listens that are open at a time, each of which holds a connection: all of them, and those of one principal.
// Anonymous clients are no principal. A listen lasts no longer than what its client has shown. 0 is no bound; without any it is nil.
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
			stop := expire(ex)
			return holding(ex, next, freeing(func() { stop(); l.leave(who) }), 0)
		}
	}
}

// expire ends a listen with the credential that it was opened with, as a drain does: its client listens anew, and has to show
// another. What is returned takes that back.
func expire(ex *proxy.Exchange) (stop func()) {
	if ex.Own || ex.Caller.Rights == nil || ex.Caller.Rights.Expires.IsZero() {
		return func() {}
	}
	listen := ex.Ticket() // the timer may come when it is over
	timer := time.AfterFunc(time.Until(ex.Caller.Rights.Expires), func() { listen.Cancel(proxy.ErrDraining) })
	return func() { timer.Stop() }
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
