package lists

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/proxy"
)

// Client is somebody to whom servers list what they offer.
type Client struct {
	proxy.Caller
	// Legacy means that it is a legacy client: a server of both eras shows it its legacy side.
	Legacy bool
	// Caps are the capabilities of a modern client, a JSON object.
	Caps []byte
}

// audience are those to whom a server shows the same lists, which may be others than the catalogue has.
type audience struct {
	caller proxy.Identity // zero: those whose requests carry nothing of theirs
	legacy bool           // legacy clients of a server of both eras
	able   string         // a sum of the capabilities of modern clients of a server whose lists depend on them
}

// everybody reports whether it is not who they are that tells the audience from those who are shown what the catalogue has.
func (a audience) everybody() bool { return a.caller == proxy.Identity{} }

// of tells apart the audiences to which clients of one caller belong.
func (a audience) of() string {
	if a.legacy {
		return "legacy"
	}
	return a.able
}

// audience returns the audience to which a client belongs at the server; false: it is shown what the catalogue has.
func (r *reader) audience(who *Client) (a audience, own bool) {
	if contextual := r.server.Load().Contextual; contextual != nil && contextual(who.Caller) {
		a.caller, own = who.Identity(), true
	}
	switch {
	case who.Legacy && r.dual.Load():
		a.legacy, own = true, true
	case !who.Legacy && r.selects.Load():
		sum := sha256.Sum256(who.Caps)
		a.able, own = string(sum[:]), true
	}
	return a, own
}

// compare finds out whether a modern server lists to clients without capabilities what it has listed to Dragoman, which declares all. It reads
// each list that was read since.
func (r *reader) compare(ctx context.Context, own *connection) {
	if own.bare == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, ownWait)
	defer cancel()
	for kind := range catalogue.Kinds {
		s := r.of.opt.Catalogue.Snapshot().Server(r.name)
		if !r.fresh[kind] || s == nil || s.Lists[kind] == nil {
			continue
		}
		r.fresh[kind] = false
		all := s.Lists[kind]
		bare := catalogue.List{}
		if len(all.Items) > 0 {
			var err error
			if bare, err = Fetch(ctx, own.bare, kind); err != nil {
				r.of.opt.Note("debug", r.name, "whether a list depends on capabilities cannot be found out", err)
				continue
			}
			bare.Items = catalogue.Distinct(bare.Items)
		}
		r.selected[kind] = !bare.Same(all)
	}
	if selects := slices.Contains(r.selected[:], true); r.selects.Swap(selects) != selects {
		r.of.regroup()
	}
}

// sideWait bounds how long a legacy client waits until it is known which servers have a legacy side: the search starts a process of a server that
// is one. A client that comes before that is shown the modern side, and told of the change.
const sideWait = time.Second

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
	r.of.regroup()
}

// regroup notes that other servers than before do not show all clients the same.
func (r *Refresher) regroup() {
	r.mu.Lock()
	r.apart.Store(apart(r.readers))
	r.mu.Unlock()
	r.ownChanged()
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
