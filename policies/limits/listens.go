package limits

import (
	"sync"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Listens returns the policy that bounds the open listens, each of which holds a connection: in total, and per
// principal. Anonymous clients have no principal, so only the total bounds them. A listen ends when its credential
// expires. A bound of 0 is none; without bounds the policy is nil.
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

// expire ends a listen when its credential expires, as a drain does: the client listens anew, with another credential.
// stop undoes it.
func expire(ex *proxy.Exchange) (stop func()) {
	if ex.Own || ex.Caller.Rights == nil || ex.Caller.Rights.Expires.IsZero() {
		return func() {}
	}
	listen := ex.Ticket() // the timer may fire after the end of the listen
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
