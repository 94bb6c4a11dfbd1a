package subscriptions

import (
	"bytes"
	"io"
	"slices"
	"sync"
	"time"

	"dragoman/adapters/era/sessions"
	"dragoman/adapters/era/work"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Bounds of a listen at a legacy server.
const (
	maxNotices  = 2 * maxSubscribed     // queued for the client, without duplicates
	noticeBytes = 8 << 20               // of queued notices
	dedupTime   = 50 * time.Millisecond // within which equal notices in two sessions of one client count as one
)

// Listens serves subscriptions/listen of modern clients at a legacy server.
type Listens struct {
	opt  Options
	work *work.Group
	pool *sessions.Pool
}

// NewListens returns Listens for one server.
func NewListens(opt Options, group *work.Group, pool *sessions.Pool) *Listens {
	return &Listens{opt: opt, work: group, pool: pool}
}

// Delivers reports whether changes seen by a session can reach a listen: by the server's notices or by polling.
// A session that is open in turn with others cannot.
func (x *Listens) Delivers(s *sessions.Session) bool {
	return !x.pool.Single() && (x.opt.Poll > 0 || s.Pushes())
}

// listenBridge is a subscriptions/listen of a modern client at a legacy server. It holds a session and receives the
// notices of that session and of the client's other sessions, in which its calls may run.
type listenBridge struct {
	x    *Listens
	ex   *proxy.Exchange
	id   []byte // of the request, raw JSON: the subscription's id
	want []string
	uris []string

	mu      sync.Mutex
	session *sessions.Session       // nil while it is being opened or reopened
	group   [32]byte                // identifies the client, across its sessions
	since   time.Time               // when the session was opened
	tries   int                     // attempts to reopen since a session was last steady
	lists   []string                // whose changes are delivered
	subs    []string                // accepted URIs; before the acknowledgement, candidates
	head    [][]byte                // sent before all notices: the acknowledgement, and the end if there is nothing to deliver
	acked   bool                    // the acknowledgement is in head or has been sent
	queue   []rules.Notice          // for the client
	size    int                     // bytes in queue
	recent  map[string]recentNotice // recent notices by key, for deduplication
	over    bool                    // the response has been returned; of the goroutine that calls Next
	ended   bool
	err     error
	wake    chan struct{}
	polling bool
	stop    chan struct{} // closed by end
}

// recentNotice is when a notice last arrived in the listen's own session, and a copy from another session that is held for
// deduplication.
type recentNotice struct {
	own     time.Time
	waiting *time.Timer
	msg     []byte // the held copy
}

// Listen answers subscriptions/listen at a legacy server. The acknowledgement names what the server can deliver.
func (x *Listens) Listen(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	if !m.Notifications.IsObject(m.Raw) {
		return nil, proxy.Errf(proxy.InvalidParams, "params.notifications must be an object")
	}
	h := &listenBridge{x: x, ex: ex, id: bytes.Clone(m.Of(m.ID)), recent: make(map[string]recentNotice), wake: make(chan struct{}, 1), stop: make(chan struct{})}
	h.want = listsIn(m)
	for _, s := range wire.Items(m.Raw, wire.Get(m.Raw, m.Notifications, "resourceSubscriptions")) {
		uri := string(s.Text(m.Raw))
		switch {
		case !s.IsString(m.Raw):
			return nil, proxy.Errf(proxy.InvalidParams, "params.notifications.resourceSubscriptions must be an array of strings")
		case len(h.uris) >= maxSubscribed:
			return nil, proxy.Errf(proxy.InvalidParams, "more than %d resourceSubscriptions in one listen", maxSubscribed)
		case !slices.Contains(h.uris, uri):
			h.uris = append(h.uris, uri)
		}
	}
	err := h.open(false)
	if sessionIsLost(err) { // it was lost before, but only now noticed
		err = h.open(false)
	}
	if err != nil {
		return nil, err
	}
	ex.Attach(h)
	return h, nil
}

// listsIn returns the lists whose changes the notifications member of a request or acknowledgement names.
func listsIn(m *wire.Message) (lists []string) {
	for _, list := range rules.NoticeLists {
		if string(wire.Get(m.Raw, m.Notifications, list+"ListChanged").Of(m.Raw)) == "true" {
			lists = append(lists, list)
		}
	}
	return lists
}

// sessionIsLost reports whether an error says that a session with the server has gone.
func sessionIsLost(err error) bool { return proxy.IsFault(err, proxy.SessionLost, proxy.Lost) }

// open acquires a session and subscribes in it. again says that the acknowledgement has been sent before.
func (l *listenBridge) open(again bool) error {
	s, err := l.x.pool.Acquire(l.ex, 0)
	if err != nil {
		return err
	}
	lists, uris := l.deliverable(s)
	if again && len(lists)+len(uris) == 0 {
		s.Release()
		l.finish()
		return nil
	}
	pushes := s.Pushes()
	l.mu.Lock()
	if !again { // before subscribing, so that notices that arrive meanwhile are kept
		l.group, l.lists, l.subs = s.Client(), lists, uris
	}
	l.mu.Unlock()
	s.AddListener(l)
	subs, err := uris, error(nil) // polled
	if pushes {
		subs, err = l.subscribe(s, uris)
	}
	l.mu.Lock()
	if l.ended || err != nil {
		l.mu.Unlock()
		s.EndListener(l, subs)
		if err == nil {
			err = l.ex.Err()
		}
		return err
	}
	l.session, l.since, l.lists, l.subs = s, time.Now(), lists, subs
	if len(lists)+len(subs) > 0 {
		l.pollUnless(pushes, s)
	}
	if again { // notices were missed while there was no session
		for _, n := range rules.AllChanged(lists, subs) {
			l.add(n.Key, n.Msg)
		}
	} else {
		l.acknowledge()
	}
	l.mu.Unlock()
	work.Signal(l.wake)
	if s.Gone() { // it was lost during set-up
		l.SessionEnded(s)
	}
	return nil
}

// finish ends the listen in good order, since nothing can be delivered any more.
func (l *listenBridge) finish() {
	l.mu.Lock()
	l.head = append(l.head, proxy.ListenEnd(l.id).Raw)
	l.mu.Unlock()
	work.Signal(l.wake)
}

// deliverable returns the part of the filter that the server supports.
func (l *listenBridge) deliverable(s *sessions.Session) (lists, uris []string) {
	if !l.x.Delivers(s) {
		return nil, nil
	}
	for _, list := range l.want {
		if s.Result().Can(list, "listChanged") {
			lists = append(lists, list)
		}
	}
	if s.Result().Can("resources", "subscribe") {
		uris = l.uris
	}
	return lists, uris
}

// subscribe returns the resources that the server accepted. It fails only if the session is lost; a session that the
// server no longer knows is discarded.
func (l *listenBridge) subscribe(s *sessions.Session, uris []string) (subs []string, err error) {
	for _, uri := range uris {
		err := s.Subscribe(l.ex, uri)
		if err == nil {
			subs = append(subs, uri)
			continue
		}
		if proxy.IsFault(err, proxy.SessionLost) {
			l.x.pool.Discard(s)
		}
		if sessionIsLost(err) {
			return subs, err
		}
	}
	return subs, nil
}

// acknowledge queues the first message, before all notices; with nothing to deliver, also the last. It drops queued
// notices of resources that the server then refused. The caller holds l.mu.
func (l *listenBridge) acknowledge() {
	honoured := rules.SubscriptionFilter(l.lists, l.subs)
	params := wire.Object([]wire.Change{{Key: "_meta", Value: l.tag()}, {Key: "notifications", Value: wire.Object(honoured)}})
	ack := append([]byte(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":`), params...)
	l.head = append(l.head, append(ack, '}'))
	if l.acked = true; len(honoured) == 0 {
		l.head = append(l.head, proxy.ListenEnd(l.id).Raw)
	}
	queued := l.queue
	l.queue, l.size = nil, 0
	for _, n := range queued {
		if m, err := wire.Scan(n.Msg); err == nil && l.wants(&m) {
			l.queue, l.size = append(l.queue, n), l.size+len(n.Msg)
		}
	}
}

// tag returns the _meta of every message of the listen.
func (l *listenBridge) tag() []byte {
	return wire.Object([]wire.Change{{Key: wire.MetaPrefix + "subscriptionId", Value: l.id}})
}

// add tags and queues a notice from the server, and wakes Next. The caller holds l.mu.
func (l *listenBridge) add(key string, raw []byte) {
	m, err := wire.Scan(raw)
	if err != nil || l.ended {
		return
	}
	switch id := (wire.Change{Key: wire.MetaPrefix + "subscriptionId", Value: l.id}); {
	case m.Meta.IsObject(m.Raw):
		m.EditObject(m.Meta, []wire.Change{id})
	default:
		m.EditParams([]wire.Change{{Key: "_meta", Value: l.tag()}})
	}
	for _, n := range l.queue {
		if n.Key == key {
			return // an equal notice is queued already
		}
	}
	msg := m.Append(nil)
	for len(l.queue) > 0 && (len(l.queue) >= maxNotices || l.size+len(msg) > noticeBytes) {
		l.shift()
	}
	l.queue, l.size = append(l.queue, rules.Notice{Key: key, Msg: msg}), l.size+len(msg)
	work.Signal(l.wake)
}

// shift removes the oldest notice. The caller holds l.mu.
func (l *listenBridge) shift() []byte {
	msg := l.queue[0].Msg
	l.queue, l.size = l.queue[1:], l.size-len(msg)
	return msg
}

// Names implements sessions.Listener.
func (l *listenBridge) Names(uri string) bool {
	return slices.ContainsFunc(l.uris, func(s string) bool { return rules.Below(uri, s) })
}

// Notify implements sessions.Listener: it receives a notice that arrived in session from. Some servers send a notice to
// every session, others only to the session whose call caused it. So a notice from another session of the client is held
// for dedupTime and dropped if the listen's own session receives it too.
func (l *listenBridge) Notify(from *sessions.Session, m *wire.Message) {
	key := rules.NoticeKey(m)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || !l.wants(m) {
		return
	}
	raw := m.Append(nil)
	if len(l.recent) > 4*maxNotices {
		l.clearRecent(true)
	}
	e := l.recent[key]
	if from == l.session || l.session == nil && !l.acked {
		if e.own = time.Now(); e.waiting != nil {
			e.waiting.Stop()
			e.waiting, e.msg = nil, nil
		}
		l.recent[key] = e
		l.add(key, raw)
		return
	}
	if e.waiting != nil || time.Since(e.own) < dedupTime {
		return
	}
	e.msg, e.waiting = raw, time.AfterFunc(dedupTime, func() { l.deliverWaiting(key) })
	l.recent[key] = e
}

// deliverWaiting delivers a held notice that only another session received.
func (l *listenBridge) deliverWaiting(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.recent[key]
	if e.waiting == nil {
		return
	}
	delete(l.recent, key)
	l.add(key, e.msg)
}

// clearRecent clears the deduplication records; give says that held notices are delivered. The caller holds l.mu.
func (l *listenBridge) clearRecent(give bool) {
	for key, e := range l.recent {
		if e.waiting == nil {
			continue
		}
		if e.waiting.Stop(); give {
			l.add(key, e.msg)
		}
	}
	clear(l.recent)
}

// wants reports whether a notice matches the listen. An update may concern a resource below a subscribed one. An update
// that matches no listen of the client goes to all its listens that have subscriptions, since only the server knows what
// it relates to; not where several callers share the sessions, since it may be another's. The caller holds l.mu.
func (l *listenBridge) wants(m *wire.Message) bool {
	method := string(m.Text(m.Method))
	if method != rules.ResourceUpdated {
		return slices.ContainsFunc(l.lists, func(list string) bool { return rules.ListChanged(list) == method })
	}
	uri := string(m.Text(m.URI))
	if slices.ContainsFunc(l.subs, func(s string) bool { return rules.Below(uri, s) }) {
		return true
	}
	return len(l.subs) > 0 && !l.x.pool.Several() && !l.x.pool.Listened(l.group, uri)
}

// SessionEnded implements sessions.Listener: it reopens the listen in another session after s is lost. The client is not
// disconnected. The first attempt is made at once unless sessions fail in quick succession.
func (l *listenBridge) SessionEnded(s *sessions.Session) {
	l.mu.Lock()
	if l.ended || l.session != s {
		l.mu.Unlock()
		return
	}
	if l.session = nil; time.Since(l.since) >= steadyTime {
		l.tries = 0
	}
	l.mu.Unlock()
	s.Release()
	again := l.x.work.Spawn(func() {
		for l.waitToReopen() {
			if l.open(true) == nil {
				return
			}
		}
		l.end(work.ErrClosing())
	})
	if !again {
		l.end(work.ErrClosing())
	}
}

// waitToReopen waits until the next attempt is due; false if the listen has ended.
func (l *listenBridge) waitToReopen() bool {
	l.mu.Lock()
	tries := l.tries
	l.tries++
	l.mu.Unlock()
	if tries > 0 {
		select {
		case <-time.After(backoff(tries)):
		case <-l.ex.Done():
		case <-l.x.work.Context().Done():
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.ended && l.ex.Err() == nil && l.x.work.Context().Err() == nil
}

// Next implements proxy.Replies.
func (l *listenBridge) Next(until time.Time) (*wire.Message, error) {
	for {
		l.mu.Lock()
		var raw []byte
		switch {
		case len(l.head) > 0:
			raw, l.head = l.head[0], l.head[1:]
		case l.acked && len(l.queue) > 0:
			raw = l.shift()
		}
		err := l.err
		l.mu.Unlock()
		if raw != nil {
			m, err := proxy.Scanned(raw)
			l.over = l.over || err == nil && m.IsResponse()
			return m, err
		}
		switch {
		case l.over:
			return nil, io.EOF
		case err != nil:
			return nil, err
		case !work.Pause(l.wake, until):
			return nil, proxy.ErrNotYet
		}
	}
}

// Abort implements proxy.Aborter.
func (l *listenBridge) Abort() { l.end(l.ex.Err()) }

// Close implements proxy.Replies.
func (l *listenBridge) Close() error {
	l.ex.Detach(l)
	l.end(io.EOF)
	return nil
}

// end ends the listen with err and releases its session, once.
func (l *listenBridge) end(err error) {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return
	}
	l.ended, l.err = true, err
	close(l.stop)
	s, subs := l.session, l.subs
	l.clearRecent(false)
	l.session = nil
	l.mu.Unlock()
	work.Signal(l.wake)
	if s != nil {
		s.EndListener(l, subs)
		return
	}
	l.x.pool.DropListener(l.group, l) // it has no session at the moment
}
