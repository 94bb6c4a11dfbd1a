package merge

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/era/work"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

// Bounds of seed 004, BR-002, BR-003 and EC-001, and of what a hostile member may list.
const (
	firstTime  = 5 * time.Second  // how long the first list waits for members that nothing is known of
	fetchTime  = 30 * time.Second // of one refresh of a member
	emptyAgain = 5 * time.Second  // until an empty list after a full one is believed
	pauseFirst = time.Second
	pauseSoon  = 8 * time.Second // the longest pause but for the last
	pauseLate  = time.Minute
	maxPages   = 1000
	maxItems   = 10_000
	maxBytes   = 64 << 20
)

// refresher keeps what the catalogue knows of one member.
type refresher struct {
	u      *Upstream
	member *Member
	known  [catalogue.Kinds]bool // lists that were known at the start
	tried  chan struct{}         // closed after the first attempt
	once   sync.Once
	wake   chan struct{}              // holds one: a list has changed, or the connection is lost
	empty  [catalogue.Kinds]time.Time // since when a list that was full is empty; zero: it is not

	mu      sync.Mutex
	changed [catalogue.Kinds]bool // lists that the member says have changed
}

// Start begins to keep the catalogue, until Close.
func (u *Upstream) Start() {
	for _, name := range u.order {
		r := &refresher{u: u, member: u.members[name], tried: make(chan struct{}), wake: make(chan struct{}, 1)}
		if s := u.opt.Catalogue.Snapshot().Server(name); s != nil {
			for kind, l := range s.Lists {
				r.known[kind] = l != nil
			}
		}
		u.refreshers[name] = r
		u.work.Spawn(func() { r.run(u.work.Context()) })
	}
}

// awaitFirst waits until each member of which no list of a kind was known at the start was asked once, for firstTime at most.
func (u *Upstream) awaitFirst(ex *proxy.Exchange, kind catalogue.Kind) error {
	var limit <-chan time.Time
	for _, name := range u.order {
		r := u.refreshers[name]
		if r == nil || r.known[kind] {
			continue
		}
		select {
		case <-r.tried:
			continue
		default:
		}
		if limit == nil {
			timer := time.NewTimer(firstTime)
			defer timer.Stop()
			limit = timer.C
		}
		select {
		case <-r.tried:
		case <-limit:
			return nil
		case <-ex.Done():
			return ex.Err()
		}
	}
	return nil
}

// run refreshes the member's part of the catalogue until ctx ends. While the member cannot be reached it is tried again, after 1, 2, 4 and 8
// s, then every minute.
func (r *refresher) run(ctx context.Context) {
	pause := pauseFirst
	for ctx.Err() == nil {
		err := r.attend(ctx)
		r.once.Do(func() { close(r.tried) })
		if ctx.Err() != nil {
			return
		}
		r.away()
		if err == nil { // it was there
			pause = pauseFirst
			continue
		}
		r.u.note("warn", r.member.Name, "the lists of a server cannot be refreshed", err)
		if !sleep(ctx, r.wake, pause) {
			return
		}
		if pause *= 2; pause > pauseSoon {
			pause = pauseLate
		}
	}
}

// sleep waits for d or a wake-up; false if ctx has ended.
func sleep(ctx context.Context, wake <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// away marks the member's lists as last known, and has them left out after the grace period unless it returns.
func (r *refresher) away() {
	c := r.u.opt.Catalogue
	s := c.Snapshot().Server(r.member.Name)
	if s == nil || s.Presence == catalogue.Out {
		return
	}
	c.SetPresence(r.member.Name, catalogue.Away)
}

// attend opens a session of Dragoman's own at the member, reads its lists, and reads them again whenever they change. It returns when the
// session is lost: with nil if the lists were read before, else with the reason.
func (r *refresher) attend(ctx context.Context) error {
	own, err := r.connect(ctx)
	if err != nil {
		return err
	}
	defer own.close()
	if err := r.refresh(ctx, own, true); err != nil {
		return err
	}
	r.u.opt.Catalogue.SetPresence(r.member.Name, catalogue.There)
	r.once.Do(func() { close(r.tried) })
	for {
		var again <-chan time.Time
		if due := r.emptyDue(); !due.IsZero() {
			timer := time.NewTimer(time.Until(due))
			defer timer.Stop()
			again = timer.C
		}
		select {
		case <-ctx.Done():
			return nil
		case <-own.gone:
			return nil
		case <-again:
		case <-r.wake:
		}
		if err := r.refresh(ctx, own, false); err != nil {
			r.u.note("warn", r.member.Name, "the lists of a server cannot be refreshed", err)
			return nil
		}
	}
}

// emptyDue returns when an empty list is to be asked for again; zero: never.
func (r *refresher) emptyDue() (due time.Time) {
	for _, since := range r.empty {
		if at := since.Add(r.u.opt.EmptyAgain); !since.IsZero() && (due.IsZero() || at.Before(due)) {
			due = at
		}
	}
	return due
}

// refresh reads the lists that have changed, or all.
func (r *refresher) refresh(ctx context.Context, own *connection, all bool) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	r.mu.Lock()
	changed := r.changed
	r.changed = [catalogue.Kinds]bool{}
	r.mu.Unlock()
	for kind := range catalogue.Kinds {
		due := !r.empty[kind].IsZero() && time.Since(r.empty[kind]) >= r.u.opt.EmptyAgain
		if !all && !changed[kind] && !due {
			continue
		}
		if !own.has(kind) {
			r.u.opt.Catalogue.SetList(r.member.Name, kind, catalogue.List{})
			continue
		}
		l, err := r.fetch(ctx, own, kind)
		if err != nil {
			return err
		}
		r.set(kind, l)
	}
	return nil
}

// set puts a list into the catalogue. An empty list after a full one is asked for again before it is believed (seed 004, BR-003).
func (r *refresher) set(kind catalogue.Kind, l catalogue.List) {
	c := r.u.opt.Catalogue
	s := c.Snapshot().Server(r.member.Name)
	full := s != nil && s.Lists[kind] != nil && len(s.Lists[kind].Items) > 0
	if len(l.Items) == 0 && full {
		if r.empty[kind].IsZero() {
			r.empty[kind] = time.Now()
			return
		}
		if time.Since(r.empty[kind]) < r.u.opt.EmptyAgain {
			return
		}
		r.u.note("warn", r.member.Name, "the server has emptied its list of "+kind.String(), nil)
	}
	r.empty[kind] = time.Time{}
	c.SetList(r.member.Name, kind, l)
}

// errTooMuch means that a member lists more than is kept.
var errTooMuch = errors.New("the server lists too much")

// fetch reads all pages of a list.
func (r *refresher) fetch(ctx context.Context, own *connection, kind catalogue.Kind) (l catalogue.List, err error) {
	var cursor []byte
	size := 0
	l.TTL = -1
	for range maxPages {
		m, err := own.ask(ctx, methods[kind], []wire.Change{{Key: "cursor", Value: cursor}})
		if err != nil {
			return l, err
		}
		if m.Kind == wire.Failure {
			return l, proxy.Errf(proxy.BadAnswer, "the server answers %s with the error %d %s", methods[kind], m.ErrorCode, m.Text(m.ErrorText))
		}
		if size += len(m.Raw); size > maxBytes {
			return l, errTooMuch
		}
		for _, item := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, listNames[kind])) {
			key := wire.Get(m.Raw, item, keys[kind])
			if !item.IsObject(m.Raw) || !key.IsString(m.Raw) {
				continue
			}
			l.Items = append(l.Items, catalogue.Item{Key: string(key.Text(m.Raw)), Raw: bytes.Clone(item.Of(m.Raw))})
		}
		if len(l.Items) > maxItems {
			return l, errTooMuch
		}
		hints(&l, &m)
		next := wire.Get(m.Raw, m.Result, "nextCursor")
		if !next.IsString(m.Raw) || bytes.Equal(next.Of(m.Raw), cursor) {
			return l, nil
		}
		cursor = bytes.Clone(next.Of(m.Raw))
	}
	return l, errTooMuch
}

// hints notes how a page may be cached (2026-07-28 caching): a list as its strictest page.
func hints(l *catalogue.List, page *wire.Message) {
	ms, err := strconv.ParseInt(string(wire.Get(page.Raw, page.Result, "ttlMs").Of(page.Raw)), 10, 64)
	ttl := time.Duration(ms) * time.Millisecond
	if err != nil || ms < 0 || ms > 1<<40 {
		ttl = 0
	}
	if l.TTL < 0 || ttl < l.TTL {
		l.TTL = ttl
	}
	l.Private = l.Private || wire.Get(page.Raw, page.Result, "cacheScope").Is(page.Raw, "private") && ttl > 0
}

// heard notes a notification of the member.
func (r *refresher) heard(m *wire.Message) {
	r.mu.Lock()
	for i, list := range rules.NoticeLists {
		if m.Is(rules.ListChanged(list)) {
			r.changed[i] = true
			if catalogue.Kind(i) == catalogue.Resources {
				r.changed[catalogue.Templates] = true
			}
		}
	}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// connection is a session of Dragoman's own at a member.
type connection struct {
	asker
	caps []byte          // capabilities of the member
	gone <-chan struct{} // closed when it is lost
}

// asker sends requests in a session.
type asker interface {
	ask(ctx context.Context, method string, params []wire.Change) (wire.Message, error)
	close()
}

// has reports whether the member has lists of a kind.
func (c *connection) has(kind catalogue.Kind) bool {
	return wire.Get(c.caps, wire.Whole(c.caps), rules.NoticeLists[min(kind, catalogue.Resources)]).Present()
}

// connect opens a connection, and describes the member in the catalogue.
func (r *refresher) connect(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	modern, err := r.member.Modern(ctx)
	if err != nil {
		return nil, err
	}
	if modern {
		return r.connectModern(ctx)
	}
	return r.connectLegacy(ctx)
}

// legacyConnection is a connection to a legacy member: a session as a client has it.
type legacyConnection struct {
	r       *refresher
	session *proxy.Session
}

func (r *refresher) connectLegacy(ctx context.Context) (*connection, error) {
	c, gone := &legacyConnection{r: r}, make(chan struct{})
	c.session = proxy.NewSession(r.u.opt.NewID()+"/"+r.member.Name, "merge", r.member.Name, proxy.Caller{}, time.Now())
	c.session.OnEnd(func() { close(gone) })
	m, err := c.ask(ctx, "initialize", []wire.Change{{Key: "protocolVersion", Value: wire.AppendText(nil, rules.LegacyVersion)}, {Key: "capabilities", Value: []byte("{}")}, {Key: "clientInfo", Value: r.u.opt.Info}})
	if err == nil && m.Kind == wire.Failure {
		err = proxy.Errf(proxy.BadAnswer, "the server refuses the session: %d %s", m.ErrorCode, m.Text(m.ErrorText))
	}
	if err != nil {
		c.close()
		return nil, err
	}
	caps := bytes.Clone(wire.Get(m.Raw, m.Result, "capabilities").Of(m.Raw))
	r.u.opt.Catalogue.Describe(r.member.Name, catalogue.Description{Revision: string(wire.Get(m.Raw, m.Result, "protocolVersion").Text(m.Raw)), Capabilities: caps,
		Info: bytes.Clone(wire.Get(m.Raw, m.Result, "serverInfo").Of(m.Raw)), Instructions: string(wire.Get(m.Raw, m.Result, "instructions").Text(m.Raw))})
	c.session.SetOutlet(c)
	if done, err := wire.Scan([]byte(rules.Initialized)); err == nil {
		session.Deliver(c.session, &proxy.Exchange{Msg: done, Own: true}, r.member.Do)
	}
	return &connection{asker: c, caps: caps, gone: gone}, nil
}

func (c *legacyConnection) ask(ctx context.Context, method string, params []wire.Change) (wire.Message, error) {
	m, err := wire.Scan(request(method, params))
	if err != nil {
		return m, err
	}
	inner := &proxy.Exchange{Msg: m, Own: true}
	defer inner.Release()
	defer inner.Follow(ctx)()
	replies, err := session.Run(c.session, inner, c.r.member.Do)
	if err != nil {
		return m, err
	}
	until, _ := ctx.Deadline()
	return proxy.Response(session.Handshake(replies), until)
}

// request returns a request of Dragoman's own.
func request(method string, params []wire.Change) []byte {
	raw := append([]byte(`{"jsonrpc":"2.0","id":"dragoman-`+method+`","method":"`+method+`","params":`), wire.Object(params)...)
	return append(raw, '}')
}

func (c *legacyConnection) close() { c.session.End(proxy.Closed) }

// Push implements proxy.Outlet.
func (c *legacyConnection) Push(msg []byte) error {
	if m, err := wire.Scan(msg); err == nil && m.Kind == wire.Notification {
		c.r.heard(&m)
	}
	return nil
}

// End implements proxy.Outlet.
func (c *legacyConnection) End() {}

// modernConnection is a connection to a modern member: a listen, and requests beside it.
type modernConnection struct {
	r  *refresher
	ex *proxy.Exchange // the listen; nil: the member announces nothing
}

func (r *refresher) connectModern(ctx context.Context) (*connection, error) {
	c := &modernConnection{r: r}
	m, err := c.ask(ctx, "server/discover", nil)
	if err == nil && m.Kind == wire.Failure {
		err = proxy.Errf(proxy.BadAnswer, "the server refuses server/discover: %d %s", m.ErrorCode, m.Text(m.ErrorText))
	}
	if err != nil {
		return nil, err
	}
	caps := bytes.Clone(wire.Get(m.Raw, m.Result, "capabilities").Of(m.Raw))
	r.u.opt.Catalogue.Describe(r.member.Name, catalogue.Description{Revision: rules.ModernVersion, Capabilities: caps, Info: bytes.Clone(m.Of(m.Info)),
		Instructions: string(wire.Get(m.Raw, m.Result, "instructions").Text(m.Raw))})
	gone := make(chan struct{})
	return &connection{asker: c, caps: caps, gone: gone}, c.listen(caps, gone)
}

func (c *modernConnection) ask(ctx context.Context, method string, params []wire.Change) (wire.Message, error) {
	ex, err := c.exchange(method, params)
	if err != nil {
		return wire.Message{}, err
	}
	defer ex.Release()
	defer ex.Follow(ctx)()
	replies, err := c.r.member.Do(ex)
	if err != nil {
		return wire.Message{}, err
	}
	until, _ := ctx.Deadline()
	return proxy.Response(replies, until)
}

// exchange returns a modern request of Dragoman's own.
func (c *modernConnection) exchange(method string, params []wire.Change) (*proxy.Exchange, error) {
	meta := wire.Object(rules.ModernMeta(c.r.u.opt.Info, []byte("{}")))
	m, err := wire.Scan(request(method, append(slices.Clone(params), wire.Change{Key: "_meta", Value: meta})))
	if err != nil {
		return nil, err
	}
	client := proxy.Client{Era: proxy.Modern, Version: rules.ModernVersion, Info: c.r.u.opt.Info, Caps: []byte("{}")}
	return &proxy.Exchange{Msg: m, Client: client, Own: true, Server: c.r.member.Name, Target: c.r.member.Name}, nil
}

// listen asks for the changes of the lists that the member announces, and closes gone when it is told no more.
func (c *modernConnection) listen(caps []byte, gone chan<- struct{}) error {
	var lists []string
	for _, list := range rules.NoticeLists {
		if string(wire.Path(caps, wire.Whole(caps), list, "listChanged").Of(caps)) == "true" {
			lists = append(lists, list)
		}
	}
	if lists == nil {
		return nil
	}
	ex, err := c.exchange("subscriptions/listen", []wire.Change{{Key: "notifications", Value: wire.Object(rules.SubscriptionFilter(lists, nil))}})
	if err != nil {
		return err
	}
	replies, err := c.r.member.Do(ex)
	if err != nil {
		return err
	}
	listens := func() {
		defer close(gone)
		defer ex.Release()
		defer func() { _ = replies.Close() }()
		for {
			m, err := replies.Next(time.Time{})
			if err != nil || m.IsResponse() {
				return
			}
			c.r.heard(m)
		}
	}
	if !c.r.u.work.Spawn(listens) {
		_ = replies.Close()
		return work.ErrClosing()
	}
	c.ex = ex
	return nil
}

func (c *modernConnection) close() {
	if c.ex != nil {
		c.ex.Cancel(proxy.ErrCancelled)
	}
}
