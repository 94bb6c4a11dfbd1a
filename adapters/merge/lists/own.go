package lists

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"dragoman/adapters/catalogue"
	"dragoman/proxy"
)

// Bounds of the lists that belong to callers.
const (
	maxOwn      = 256             // audiences of a server
	maxOwnBytes = 256 << 20       // of all their lists, but for what the catalogue has, too
	ownTime     = 5 * time.Minute // for which they are believed, unless the server allows less
	ownWait     = 5 * time.Second // how long a request waits for them
	noTime      = 1 << 62         // they are believed until something else makes them due
)

// owned holds what a server shows one audience.
type owned struct {
	r    *reader
	to   audience
	able []byte // the capabilities of the audience, if the lists depend on them
	// shown is the server as it was known last, in place of that of the catalogue.
	shown atomic.Pointer[catalogue.Server]

	mu      sync.Mutex
	reading *reading      // nil: nobody reads
	began   time.Time     // when the last reading that went well began
	due     time.Time     // when the next one is due; zero: at once
	pause   time.Duration // after the last one, which has failed; 0: it went well
	changes int           // how often the server has said that a list has changed
}

// reading is the reading of lists on behalf of a caller.
type reading struct {
	began time.Time
	done  chan struct{} // closed at its end
}

// newOwned returns an owned without lists.
func (r *reader) newOwned(to audience) *owned {
	o := &owned{r: r, to: to}
	none := catalogue.Server{Name: r.name}
	if s := r.of.opt.Catalogue.Snapshot().Server(r.name); s != nil {
		none = *s
	}
	none.Lists, none.Presence, none.Since, none.For = [catalogue.Kinds]*catalogue.List{}, catalogue.Away, time.Time{}, to.of()
	o.shown.Store(&none)
	return o
}

// ownedBy returns what the server shows the client's audience; nil: it shows the client what the catalogue has. With keep it is remembered.
func (r *reader) ownedBy(who *Client, keep bool) *owned {
	to, own := r.audience(who)
	if !own {
		return nil
	}
	if o, known := r.own.Get(to); known {
		return o
	}
	o := r.newOwned(to)
	if !keep {
		return o
	}
	if to.able != "" {
		o.able = bytes.Clone(who.Caps)
	}
	if before, known, _ := r.own.PeekOrAdd(to, o); known {
		return before
	}
	return o
}

// refresh begins to read what is due on behalf of a caller, and returns what to wait for; nil: there is nothing to read, or a reading takes
// or took too long to wait for it.
func (o *owned) refresh(caller proxy.Caller) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if o.reading == nil {
		if !o.stale(now) {
			return nil
		}
		next, changes := &reading{began: now, done: make(chan struct{})}, o.changes
		if !o.r.of.work.Spawn(func() { o.read(caller, next, changes) }) {
			return nil
		}
		o.reading = next
	}
	if o.pause > 0 || now.Sub(o.reading.began) >= ownWait {
		return nil
	}
	return o.reading.done
}

// stale reports whether the lists are to be read: their time has passed, the server was lost since, or those of the catalogue were read
// again, which is done when the server says that they have changed. The caller holds mu.
func (o *owned) stale(now time.Time) bool {
	if !now.Before(o.due) {
		return true
	}
	s := o.r.of.opt.Catalogue.Snapshot().Server(o.r.name)
	if s == nil {
		return false
	}
	if o.pause > 0 {
		return s.Presence == catalogue.There && s.Since.After(o.due.Add(-o.pause)) // it is back
	}
	if s.Presence != catalogue.There && s.Since.After(o.began) {
		return true
	}
	for _, l := range s.Lists {
		if l != nil && l.Fetched.After(o.began) {
			return true
		}
	}
	return false
}

// changed notes that the server has said that a list has changed.
func (o *owned) changed() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changes++
	if o.pause == 0 {
		o.due = time.Time{}
	}
}

// read reads the lists. Those that cannot be read stay as they are known; if that takes long they are the last known ones meanwhile.
func (o *owned) read(caller proxy.Caller, now *reading, changes int) {
	again := false
	defer func() {
		if again {
			o.refresh(caller)
		}
		close(now.done)
	}()
	ctx, cancel := context.WithTimeout(o.r.ctx, fetchTime)
	defer cancel()
	late := time.AfterFunc(ownWait, o.late)
	next, ttl, err := o.readFor(ctx, caller)
	late.Stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reading = nil
	if err != nil {
		o.pause = min(max(2*o.pause, pauseFirst), pauseLate)
		o.due = time.Now().Add(o.pause)
		o.away()
		o.r.of.opt.Note("debug", o.r.name, "the lists of a caller cannot be read", err)
		return
	}
	o.pause, o.began, o.due = 0, now.began, now.began.Add(ttl)
	if again = o.changes != changes; again {
		o.due = time.Time{}
	}
	before := o.shown.Swap(next)
	o.r.boundOwn()
	if public := o.r.of.opt.Catalogue.Snapshot().Server(o.r.name); o.to.everybody() && Unread(before) && public != nil {
		before = public // which was shown
	}
	if !Unread(before) && !alike(before, next) {
		o.r.of.ownChanged()
	}
}

// late is called while the lists are being read.
func (o *owned) late() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.reading != nil {
		o.away()
	}
}

// Unread reports whether nothing is known of a server that Own has returned, since its lists were never read, or were forgotten.
func Unread(s *catalogue.Server) bool { return s.Presence == catalogue.Away && s.Since.IsZero() }

// away makes the lists the last known ones, and leaves them out after the grace period. The caller holds mu.
func (o *owned) away() {
	shown := *o.shown.Load()
	switch {
	case o.to.everybody() && Unread(&shown):
		return // they are shown what the catalogue has
	case shown.Presence == catalogue.There || Unread(&shown):
		shown.Presence = catalogue.Away
	case shown.Presence == catalogue.Away && time.Since(shown.Since) >= o.r.of.grace():
		shown.Presence = catalogue.Out
		defer o.r.of.ownChanged()
	default:
		return
	}
	shown.Since = time.Now()
	o.shown.Store(&shown)
}

// alike reports whether a server shows the same lists in two states.
func alike(a, b *catalogue.Server) bool {
	if (a.Presence == catalogue.Out) != (b.Presence == catalogue.Out) {
		return false
	}
	for kind := range catalogue.Kinds {
		x, y := a.Lists[kind], b.Lists[kind]
		if (x == nil) != (y == nil) || x != nil && !x.Same(y) {
			return false
		}
	}
	return true
}

// openFor opens a connection to read what the server shows the audience.
func (o *owned) openFor(ctx context.Context, caller proxy.Caller) (*connection, catalogue.Description, error) {
	switch {
	case o.to.legacy:
		return o.r.openLegacy(ctx, caller, false)
	case o.to.able != "":
		return o.r.openModern(ctx, caller, o.able, false)
	}
	return o.r.open(ctx, caller, false)
}

// readFor reads what the server shows the audience, on behalf of a caller, and for how long that is believed. A list that the server refuses,
// unless it is the only one, stays as it was before.
func (o *owned) readFor(ctx context.Context, caller proxy.Caller) (next *catalogue.Server, ttl time.Duration, err error) {
	r, to, before, most := o.r, o.to, o.shown.Load(), ownTime
	if to.everybody() { // as the catalogue's, with which they are read again
		caller, most = proxy.Caller{}, noTime
	}
	own, described, err := o.openFor(ctx, caller)
	if err != nil {
		return nil, 0, err
	}
	defer own.close()
	next, ttl = &catalogue.Server{Name: r.name}, most
	public := r.of.opt.Catalogue.Snapshot().Server(r.name)
	if public != nil {
		*next = *public
	}
	next.Description, next.Presence, next.Since, next.For = described, catalogue.There, time.Now(), to.of()
	var refused *refusedError
	read := false
	for kind := range catalogue.Kinds {
		l := catalogue.List{}
		if own.has(kind) {
			l, err = Fetch(ctx, own, kind)
			if errors.As(err, &refused) {
				next.Lists[kind] = before.Lists[kind]
				continue
			}
			if err != nil {
				return nil, 0, err
			}
			read = true
		}
		if l.TTL > 0 && !to.everybody() {
			ttl = min(ttl, l.TTL)
		}
		l.Items, l.Private, l.Fetched = catalogue.Distinct(l.Items), l.Private || !to.everybody(), next.Since
		if public != nil && public.Lists[kind] != nil && public.Lists[kind].Same(&l) {
			l.Items = public.Lists[kind].Items // one copy is enough
		}
		next.Lists[kind] = &l
	}
	if refused != nil && !read {
		return nil, 0, refused
	}
	return next, ttl, nil
}

// boundOwn forgets what callers that have not come for the longest time were shown, if there is too much.
func (r *reader) boundOwn() {
	public := r.of.opt.Catalogue.Snapshot().Server(r.name)
	size := 0
	for _, o := range r.own.Values() { // the newest is the last
		size += sizeOf(o.shown.Load(), public)
	}
	for size > r.of.maxOwnBytes && r.own.Len() > 1 {
		_, o, ok := r.own.RemoveOldest()
		if !ok {
			return
		}
		size -= sizeOf(o.shown.Load(), public)
	}
}

// sizeOf returns the bytes of the lists of a server, but for those that the catalogue holds.
func sizeOf(s, public *catalogue.Server) (size int) {
	for kind, l := range s.Lists {
		if l == nil || len(l.Items) == 0 {
			continue
		}
		if public != nil && public.Lists[kind] != nil && len(public.Lists[kind].Items) > 0 && &public.Lists[kind].Items[0] == &l.Items[0] {
			continue
		}
		for i := range l.Items {
			size += len(l.Items[i].Raw)
		}
	}
	return size
}

// ownChanged tells that what a server shows some caller has changed.
func (r *Refresher) ownChanged() {
	r.ownMu.Lock()
	defer r.ownMu.Unlock()
	if r.ownWaiting != nil {
		close(r.ownWaiting)
		r.ownWaiting = nil
	}
}

// OwnChanged returns a channel that is closed when what a server shows some caller alone has changed after the call.
func (r *Refresher) OwnChanged() <-chan struct{} {
	r.ownMu.Lock()
	defer r.ownMu.Unlock()
	if r.ownWaiting == nil {
		r.ownWaiting = make(chan struct{})
	}
	return r.ownWaiting
}

// ownedBy returns what those of some servers show a client that do not show it what the catalogue has. With keep it is remembered.
func (r *Refresher) ownedBy(servers []string, who *Client, keep bool) (all []*owned) {
	apart := r.apart.Load()
	if apart == nil {
		return nil
	}
	for _, name := range servers {
		if one := (*apart)[name]; one != nil {
			if o := one.ownedBy(who, keep); o != nil {
				all = append(all, o)
			}
		}
	}
	return all
}

// Own returns those of some servers that show a client other lists than the catalogue has, as they are known. A server whose lists for the
// caller were never read has none; one whose legacy side was never read is left out. Own reads nothing, not even what is due: see Await.
func (r *Refresher) Own(servers []string, who *Client) (all []*catalogue.Server) {
	for _, o := range r.ownedBy(servers, who, false) {
		if s := o.shown.Load(); !o.to.everybody() || !Unread(s) {
			all = append(all, s)
		}
	}
	return all
}

// Changed notes that a server has said, to a client, that a list has changed. The lists that the client is shown are read again, unless they
// are the catalogue's.
func (r *Refresher) Changed(server string, who Client) {
	for _, o := range r.ownedBy([]string{server}, &who, true) {
		o.changed()
		o.refresh(who.Caller)
	}
}

// Renew begins to read what is due of the lists that some servers have shown a client, or of their legacy sides, but for the catalogue's.
func (r *Refresher) Renew(servers []string, who Client) {
	if who.Legacy {
		_ = r.findSides(r.work.Context(), servers, time.Time{})
	}
	for _, o := range r.ownedBy(servers, &who, who.Legacy) {
		if o.to.everybody() || !Unread(o.shown.Load()) {
			o.refresh(who.Caller)
		}
	}
}

// AwaitOwn waits until the lists that some servers show a client are up to date, but for the catalogue's, for 5 s at most. Nobody waits for a
// server whose lists could not be read the last time.
func (r *Refresher) AwaitOwn(ctx context.Context, servers []string, who Client) error {
	until := time.Now().Add(ownWait)
	if who.Legacy {
		if err := r.findSides(ctx, servers, time.Now().Add(sideWait)); err != nil {
			return err
		}
	}
	var waits []<-chan struct{}
	for _, o := range r.ownedBy(servers, &who, true) {
		waits = append(waits, o.refresh(who.Caller))
	}
	return wait(ctx, waits, until)
}

// wait waits until all channels are closed, until a time at most; nil is closed.
func wait(ctx context.Context, all []<-chan struct{}, until time.Time) error {
	var limit <-chan time.Time
	for _, one := range all {
		if one == nil {
			continue
		}
		select {
		case <-one:
			continue
		default:
		}
		if limit == nil {
			timer := time.NewTimer(time.Until(until))
			defer timer.Stop()
			limit = timer.C
		}
		select {
		case <-one:
		case <-limit:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// newOwn returns the memory of what audiences are shown.
func newOwn() *lru.Cache[audience, *owned] {
	own, _ := lru.New[audience, *owned](maxOwn) // it fails for a size below one only
	return own
}
