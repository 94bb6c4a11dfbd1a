package subscriptions

import (
	"bytes"
	"errors"
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
func (x *Listens) Delivers(s *sessions.Session) bool { return s.Pushes() || x.opt.Poll > 0 }

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
	over    bool                    // the response has been returned
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
func sessionIsLost(err error) bool {
	var e *proxy.Error
	return errors.As(err, &e) && (e.Name == proxy.SessionLost.Name || e.Name == proxy.Lost.Name)
}

// open acquires a session and subscribes in it. again says that the acknowledgement has been sent before.
func (h *listenBridge) open(again bool) error {
	s, err := h.x.pool.Acquire(h.ex, false, 0)
	if err != nil {
		return err
	}
	lists, uris := h.deliverable(s)
	h.mu.Lock()
	if !again { // before subscribing, so that notices that arrive meanwhile are kept
		h.group, h.lists, h.subs = s.Client(), lists, uris
	}
	h.mu.Unlock()
	s.AddListener(h)
	subs, err := h.subscribe(s, uris)
	h.mu.Lock()
	if h.ended || err != nil {
		h.mu.Unlock()
		s.EndListener(h, subs)
		if err == nil {
			err = h.ex.Err()
		}
		return err
	}
	h.session, h.since, h.lists, h.subs = s, time.Now(), lists, subs
	if !s.Pushes() && !h.polling && len(lists)+len(subs) > 0 {
		h.polling = h.x.work.Spawn(h.poll)
	}
	if again { // notices were missed while there was no session
		for _, n := range rules.AllChanged(lists, subs) {
			h.add(n.Key, n.Msg)
		}
	} else {
		h.acknowledge()
	}
	h.mu.Unlock()
	work.Signal(h.wake)
	if s.Gone() { // it was lost during set-up
		h.SessionEnded(s)
	}
	return nil
}

// deliverable returns the part of the filter that the server supports.
func (h *listenBridge) deliverable(s *sessions.Session) (lists, uris []string) {
	if !h.x.Delivers(s) {
		return nil, nil
	}
	for _, list := range h.want {
		if s.Result().Can(list, "listChanged") {
			lists = append(lists, list)
		}
	}
	if s.Result().Can("resources", "subscribe") {
		uris = h.uris
	}
	return lists, uris
}

// subscribe returns the resources that the server accepted. It fails only if the session is lost; a session that the
// server no longer knows is discarded.
func (h *listenBridge) subscribe(s *sessions.Session, uris []string) (subs []string, err error) {
	if !s.Pushes() {
		return uris, nil // they are polled
	}
	for _, uri := range uris {
		err := s.Subscribe(h.ex, uri)
		if err == nil {
			subs = append(subs, uri)
			continue
		}
		var e *proxy.Error
		if errors.As(err, &e) && e.Name == proxy.SessionLost.Name {
			h.x.pool.Discard(s)
		}
		if sessionIsLost(err) {
			return subs, err
		}
	}
	return subs, nil
}

// acknowledge queues the first message, before all notices; with nothing to deliver, also the last. It drops queued
// notices of resources that the server then refused. The caller holds h.mu.
func (h *listenBridge) acknowledge() {
	honoured := rules.SubscriptionFilter(h.lists, h.subs)
	params := wire.Object([]wire.Change{{Key: "_meta", Value: h.tag()}, {Key: "notifications", Value: wire.Object(honoured)}})
	ack := append([]byte(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":`), params...)
	h.head = append(h.head, append(ack, '}'))
	if h.acked = true; len(honoured) == 0 {
		h.head = append(h.head, proxy.ListenEnd(h.id).Raw)
	}
	queued := h.queue
	h.queue, h.size = nil, 0
	for _, n := range queued {
		if m, err := wire.Scan(n.Msg); err == nil && h.wants(&m) {
			h.queue, h.size = append(h.queue, n), h.size+len(n.Msg)
		}
	}
}

// tag returns the _meta of every message of the listen.
func (h *listenBridge) tag() []byte {
	return wire.Object([]wire.Change{{Key: wire.MetaPrefix + "subscriptionId", Value: h.id}})
}

// add tags and queues a notice from the server. The caller holds h.mu.
func (h *listenBridge) add(key string, raw []byte) {
	m, err := wire.Scan(raw)
	if err != nil || h.ended {
		return
	}
	switch id := (wire.Change{Key: wire.MetaPrefix + "subscriptionId", Value: h.id}); {
	case m.Meta.IsObject(m.Raw):
		m.EditObject(m.Meta, []wire.Change{id})
	default:
		m.EditParams([]wire.Change{{Key: "_meta", Value: h.tag()}})
	}
	for _, n := range h.queue {
		if n.Key == key {
			return // an equal notice is queued already
		}
	}
	msg := m.Append(nil)
	for len(h.queue) > 0 && (len(h.queue) >= maxNotices || h.size+len(msg) > noticeBytes) {
		h.shift()
	}
	h.queue, h.size = append(h.queue, rules.Notice{Key: key, Msg: msg}), h.size+len(msg)
}

// shift removes the oldest notice. The caller holds h.mu.
func (h *listenBridge) shift() []byte {
	msg := h.queue[0].Msg
	h.queue, h.size = h.queue[1:], h.size-len(msg)
	return msg
}

// Names implements sessions.Listener.
func (h *listenBridge) Names(uri string) bool {
	return slices.ContainsFunc(h.uris, func(s string) bool { return rules.Below(uri, s) })
}

// Notify implements sessions.Listener: it receives a notice that arrived in session from. Some servers send a notice to
// every session, others only to the session whose call caused it. So a notice from another session of the client is held
// for dedupTime and dropped if the listen's own session receives it too.
func (h *listenBridge) Notify(from *sessions.Session, m *wire.Message) {
	key := rules.NoticeKey(m)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended || !h.wants(m) {
		return
	}
	raw := m.Append(nil)
	if len(h.recent) > 4*maxNotices {
		h.clearRecent(true)
	}
	e := h.recent[key]
	if from == h.session || h.session == nil && !h.acked {
		if e.own = time.Now(); e.waiting != nil {
			e.waiting.Stop()
			e.waiting, e.msg = nil, nil
		}
		h.recent[key] = e
		h.add(key, raw)
		work.Signal(h.wake)
		return
	}
	if e.waiting != nil || time.Since(e.own) < dedupTime {
		return
	}
	e.msg, e.waiting = raw, time.AfterFunc(dedupTime, func() { h.deliverWaiting(key) })
	h.recent[key] = e
}

// deliverWaiting delivers a held notice that only another session received.
func (h *listenBridge) deliverWaiting(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.recent[key]
	if e.waiting == nil {
		return
	}
	delete(h.recent, key)
	h.add(key, e.msg)
	work.Signal(h.wake)
}

// clearRecent clears the deduplication records; give says that held notices are delivered. The caller holds h.mu.
func (h *listenBridge) clearRecent(give bool) {
	for key, e := range h.recent {
		if e.waiting == nil {
			continue
		}
		if e.waiting.Stop(); give {
			h.add(key, e.msg)
			work.Signal(h.wake)
		}
	}
	clear(h.recent)
}

// wants reports whether a notice matches the listen. An update may concern a resource below a subscribed one. An update
// that matches no listen of the client goes to all its listens that have subscriptions, since only the server knows what
// it relates to. The caller holds h.mu.
func (h *listenBridge) wants(m *wire.Message) bool {
	method := string(m.Text(m.Method))
	if method != rules.ResourceUpdated {
		return slices.ContainsFunc(h.lists, func(list string) bool { return rules.ListChanged(list) == method })
	}
	uri := string(m.Text(m.URI))
	if slices.ContainsFunc(h.subs, func(s string) bool { return rules.Below(uri, s) }) {
		return true
	}
	return len(h.subs) > 0 && !h.x.pool.Listened(h.group, uri)
}

// SessionEnded implements sessions.Listener: it reopens the listen in another session after s is lost. The client is not
// disconnected. The first attempt is made at once unless sessions fail in quick succession.
func (h *listenBridge) SessionEnded(s *sessions.Session) {
	h.mu.Lock()
	if h.ended || h.session != s {
		h.mu.Unlock()
		return
	}
	if h.session = nil; time.Since(h.since) >= steadyTime {
		h.tries = 0
	}
	h.mu.Unlock()
	s.Release(false)
	again := h.x.work.Spawn(func() {
		for h.waitToReopen() {
			if h.open(true) == nil {
				return
			}
		}
		h.end(work.ErrClosing())
	})
	if !again {
		h.end(work.ErrClosing())
	}
}

// waitToReopen waits until the next attempt is due; false if the listen has ended.
func (h *listenBridge) waitToReopen() bool {
	h.mu.Lock()
	tries := h.tries
	h.tries++
	h.mu.Unlock()
	if tries > 0 {
		select {
		case <-time.After(backoff(tries)):
		case <-h.ex.Done():
		case <-h.x.work.Context().Done():
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.ended && h.ex.Err() == nil && h.x.work.Context().Err() == nil
}

// Next implements proxy.Replies.
func (h *listenBridge) Next(until time.Time) (*wire.Message, error) {
	for {
		h.mu.Lock()
		var raw []byte
		switch {
		case len(h.head) > 0:
			raw, h.head = h.head[0], h.head[1:]
		case h.acked && len(h.queue) > 0:
			raw = h.shift()
		}
		over, ended, err := h.over, h.ended, h.err
		h.mu.Unlock()
		if raw != nil {
			m, err := proxy.Scanned(raw)
			if err == nil {
				h.noteResponse(m)
			}
			return m, err
		}
		switch {
		case over:
			return nil, io.EOF
		case err != nil:
			return nil, err
		case ended:
			return nil, io.EOF
		case !work.Pause(h.wake, until):
			return nil, proxy.ErrNotYet
		}
	}
}

// noteResponse records that the response has been returned.
func (h *listenBridge) noteResponse(m *wire.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = h.over || m.IsResponse()
}

// Abort implements proxy.Aborter.
func (h *listenBridge) Abort() { h.end(h.ex.Err()) }

// Close implements proxy.Replies.
func (h *listenBridge) Close() error {
	h.ex.Detach(h)
	h.end(io.EOF)
	return nil
}

// end ends the listen with err and releases its session, once.
func (h *listenBridge) end(err error) {
	h.mu.Lock()
	if h.ended {
		h.mu.Unlock()
		return
	}
	h.ended, h.err = true, err
	close(h.stop)
	s, subs := h.session, h.subs
	h.clearRecent(false)
	h.session = nil
	h.mu.Unlock()
	work.Signal(h.wake)
	if s != nil {
		s.EndListener(h, subs)
		return
	}
	h.x.pool.DropListener(h.group, h) // it has no session at the moment
}
