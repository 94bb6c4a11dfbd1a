package lists

import (
	"context"
	"time"

	"dragoman/proxy"
)

// Client is somebody to whom servers list what they offer.
type Client struct {
	proxy.Caller
	// Legacy means that it is a legacy client: a server of both eras shows it its legacy side.
	Legacy bool
}

// audience are those to whom a server shows the same lists, which may be others than the catalogue has.
type audience struct {
	caller proxy.Identity // zero: those whose requests carry nothing of theirs
	legacy bool           // legacy clients of a server of both eras
}

// everybody reports whether nothing but the era tells the audience from those who are shown what the catalogue has.
func (a audience) everybody() bool { return a.caller == proxy.Identity{} }

// audience returns the audience to which a client belongs at the server; false: it is shown what the catalogue has.
func (r *reader) audience(who *Client) (a audience, own bool) {
	if contextual := r.server.Load().Contextual; contextual != nil && contextual(who.Caller) {
		a.caller, own = who.Identity(), true
	}
	if who.Legacy && r.dual.Load() {
		a.legacy, own = true, true
	}
	return a, own
}

// look is the search for the legacy side of a modern server.
type look struct {
	done   chan struct{} // closed at its end
	failed time.Time     // when the last search failed; zero: it did not
}

// met notes which era the server was found to speak with Dragoman's own session. Whether a modern server has a legacy side is found out once
// there are legacy clients, which costs a process if the server is one.
func (r *reader) met(modern bool) {
	r.of.sidesMu.Lock()
	defer r.of.sidesMu.Unlock()
	if unknown := modern && r.server.Load().Dual != nil; unknown != r.unsided {
		r.unsided = unknown
		r.of.unsided.Add(map[bool]int64{true: 1, false: -1}[unknown])
	}
	r.look.failed = time.Time{}
	if !modern {
		r.setDual(false)
	}
}

// setDual notes whether the server shows legacy clients another side. The caller holds sidesMu.
func (r *reader) setDual(dual bool) {
	if r.dual.Swap(dual) == dual {
		return
	}
	r.of.mu.Lock()
	r.of.apart.Store(apart(r.of.readers))
	r.of.mu.Unlock()
	r.of.ownChanged()
}

// findSide begins to find out whether the server shows legacy clients another side, unless that is known. It returns what to wait for; nil:
// nothing, or the last attempt has failed.
func (r *reader) findSide() <-chan struct{} {
	r.of.sidesMu.Lock()
	defer r.of.sidesMu.Unlock()
	failed := !r.look.failed.IsZero()
	if !r.unsided || r.look.done == nil && failed && time.Since(r.look.failed) < pauseLate {
		return nil
	}
	if r.look.done == nil {
		done := make(chan struct{})
		if !r.of.work.Spawn(func() { r.search(done) }) {
			return nil
		}
		r.look.done = done
	}
	if failed {
		return nil
	}
	return r.look.done
}

// search finds out whether the server shows legacy clients another side.
func (r *reader) search(done chan struct{}) {
	defer close(done)
	ctx, cancel := context.WithTimeout(r.ctx, openTime)
	defer cancel()
	dual, err := r.server.Load().Dual(ctx)
	r.of.sidesMu.Lock()
	defer r.of.sidesMu.Unlock()
	r.look.done = nil
	if err != nil {
		r.look.failed = time.Now()
		r.of.opt.Note("debug", r.name, "whether a server has a legacy side cannot be found out", err)
		return
	}
	if r.unsided {
		r.unsided = false
		r.of.unsided.Add(-1)
		r.setDual(dual)
	}
}

// findSides finds out which of some servers show legacy clients another side, and waits for that until a time. Nobody waits for a server of
// which it could not be found out the last time.
func (r *Refresher) findSides(ctx context.Context, servers []string, until time.Time) error {
	if r.unsided.Load() == 0 { // almost always
		return nil
	}
	var waits []<-chan struct{}
	for _, name := range servers {
		r.mu.Lock()
		one := r.readers[name]
		r.mu.Unlock()
		if one != nil {
			waits = append(waits, one.findSide())
		}
	}
	return wait(ctx, waits, until)
}
