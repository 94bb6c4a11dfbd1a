package subscriptions

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
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
	maxNotices  = 2 * maxSubscribed     // that wait for the client, of which those that say the same are one
	noticeBytes = 8 << 20               // of these
	dedupTime   = 50 * time.Millisecond // within which notices in two sessions of one client are taken for one
)

// ListenOptions are the options of Listens.
type ListenOptions struct {
	Poll    time.Duration // how often a listen reads what it is for at a server without a stream for notices; 0: never
	Timeout time.Duration // for one such reading
}

// Listens are the listens of modern clients at a legacy server.
type Listens struct {
	opt  ListenOptions
	work *work.Group
	pool *sessions.Pool
}

// NewListens makes the listens of one server, of which there are none yet.
func NewListens(opt ListenOptions, group *work.Group, pool *sessions.Pool) *Listens {
	return &Listens{opt: opt, work: group, pool: pool}
}

// Delivers reports whether a session's changes reach a listen: because the server can announce them, or by reading.
func (x *Listens) Delivers(s *sessions.Session) bool { return s.Pushes() || x.opt.Poll > 0 }

// listenBridge is a subscriptions/listen of a modern client at a legacy server: it holds a session, whose notices it gets, and
// those of the client's other sessions, in which its calls may run.
type listenBridge struct {
	x    *Listens
	ex   *proxy.Exchange
	id   []byte // of the request, raw JSON: the subscription's id
	want []string
	uris []string

	mu      sync.Mutex
	session *sessions.Session   // nil while it is being opened, for the first time or again
	group   [32]byte            // of the session: the client
	since   time.Time           // when the session was there
	tries   int                 // to open another, since one was steady
	lists   []string            // whose changes are delivered
	subs    []string            // URIs that the server has accepted, or, before the acknowledgement, may accept
	head    [][]byte            // what goes out ahead of all notices: the acknowledgement, and the end if that is all
	acked   bool                // the acknowledgement has been made
	queue   []rules.Notice      // for the client
	size    int                 // bytes of these
	heard   map[string]sighting // when what was last heard, and where
	over    bool                // the response has been given out
	ended   bool
	err     error
	wake    chan struct{}
	polling bool
	stop    chan struct{} // closed at the end
}

// sighting remembers when a notice came in the listen's own session, and whether one from another waits to see if it will.
type sighting struct {
	own     time.Time
	waiting *time.Timer
	msg     []byte // what waits
}

// Listen answers subscriptions/listen at a legacy server: acknowledged is what the server can deliver.
func (x *Listens) Listen(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	if !m.Notifications.IsObject(m.Raw) {
		return nil, proxy.Errf(proxy.InvalidParams, "params.notifications must be an object")
	}
	h := &listenBridge{x: x, ex: ex, id: bytes.Clone(m.Of(m.ID)), heard: make(map[string]sighting), wake: make(chan struct{}, 1), stop: make(chan struct{})}
	for _, list := range rules.NoticeLists {
		if string(wire.Get(m.Raw, m.Notifications, list+"ListChanged").Of(m.Raw)) == "true" {
			h.want = append(h.want, list)
		}
	}
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
	if sessionIsLost(err) { // it was lost before, and is only found out now
		err = h.open(false)
	}
	if err != nil {
		return nil, err
	}
	ex.Attach(h)
	return h, nil
}

// sessionIsLost reports whether an error says that a session with the server has gone.
func sessionIsLost(err error) bool {
	var e *proxy.Error
	return errors.As(err, &e) && (e.Name == proxy.SessionLost.Name || e.Name == proxy.Lost.Name)
}

// open takes a session and subscribes in it; again says that the client has been told before.
func (h *listenBridge) open(again bool) error {
	s, err := h.x.pool.Acquire(h.ex, false, 0)
	if err != nil {
		return err
	}
	lists, uris := h.deliverable(s)
	h.mu.Lock()
	if !again { // so that what is said while the server is asked is not lost
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
	if again { // nobody heard anything while the session was being opened
		for _, n := range rules.AllChanged(lists, subs) {
			h.add(n.Key, n.Msg)
		}
	} else {
		h.acknowledge()
	}
	h.mu.Unlock()
	h.signal()
	if s.Gone() { // while it was being set up
		h.Moved(s)
	}
	return nil
}

// deliverable returns what of the filter the server says it tells of.
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

// subscribe returns the resources that the server accepts. The error is of a session that is lost; one that the server
// has forgotten is dropped.
func (h *listenBridge) subscribe(s *sessions.Session, uris []string) (subs []string, err error) {
	if !s.Pushes() {
		return uris, nil // they are read
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

// acknowledge makes the first message, ahead of all notices; with nothing to deliver, also the last. What was heard before
// of a resource that the server then refused is forgotten. The caller holds h.mu.
func (h *listenBridge) acknowledge() {
	honoured := rules.SubscriptionFilter(h.lists, h.subs)
	params := wire.Object([]wire.Change{{Key: "_meta", Value: h.tag()}, {Key: "notifications", Value: wire.Object(honoured)}})
	ack := append([]byte(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":`), params...)
	h.head = append(h.head, append(ack, '}'))
	if h.acked = true; len(honoured) == 0 {
		h.head = append(h.head, proxy.ListenEnd(h.id).Raw)
	}
	heard := h.queue
	h.queue, h.size = nil, 0
	for _, n := range heard {
		if m, err := wire.Scan(n.Msg); err == nil && h.wants(&m) {
			h.queue, h.size = append(h.queue, n), h.size+len(n.Msg)
		}
	}
}

// tag is the _meta of everything that a listen delivers.
func (h *listenBridge) tag() []byte {
	return wire.Object([]wire.Change{{Key: wire.MetaPrefix + "subscriptionId", Value: h.id}})
}

// add queues a notice of the server's, tagged. The caller holds h.mu.
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
			return // it waits already: what it says has not been said yet
		}
	}
	msg := m.Append(nil)
	for len(h.queue) > 0 && (len(h.queue) >= maxNotices || h.size+len(msg) > noticeBytes) {
		h.shift()
	}
	h.queue, h.size = append(h.queue, rules.Notice{Key: key, Msg: msg}), h.size+len(msg)
}

// shift takes the oldest notice out. The caller holds h.mu.
func (h *listenBridge) shift() []byte {
	msg := h.queue[0].Msg
	h.queue, h.size = h.queue[1:], h.size-len(msg)
	return msg
}

func (h *listenBridge) signal() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// Names implements sessions.Listener.
func (h *listenBridge) Names(uri string) bool {
	return slices.ContainsFunc(h.uris, func(s string) bool { return rules.Below(uri, s) })
}

// Hear implements sessions.Listener: it takes a notice that came in the session from. What another session of the client hears is given out unless the
// listen's own hears the same at the same time: some servers tell every session, some only the one whose call it was.
func (h *listenBridge) Hear(from *sessions.Session, m *wire.Message) {
	key := rules.NoticeKey(m)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended || !h.wants(m) {
		return
	}
	raw := m.Append(nil)
	if len(h.heard) > 4*maxNotices {
		h.forget(true)
	}
	e := h.heard[key]
	if from == h.session || h.session == nil && !h.acked {
		if e.own = time.Now(); e.waiting != nil {
			e.waiting.Stop()
			e.waiting, e.msg = nil, nil
		}
		h.heard[key] = e
		h.add(key, raw)
		h.signal()
		return
	}
	if e.waiting != nil || time.Since(e.own) < dedupTime {
		return
	}
	e.msg, e.waiting = raw, time.AfterFunc(dedupTime, func() { h.deliverWaiting(key) })
	h.heard[key] = e
}

// deliverWaiting gives out what was heard in another session only.
func (h *listenBridge) deliverWaiting(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.heard[key]
	if e.waiting == nil {
		return
	}
	delete(h.heard, key)
	h.add(key, e.msg)
	h.signal()
}

// forget forgets what was heard when; give says that what waits for its echo is given out. The caller holds h.mu.
func (h *listenBridge) forget(give bool) {
	for key, e := range h.heard {
		if e.waiting == nil {
			continue
		}
		if e.waiting.Stop(); give {
			h.add(key, e.msg)
			h.signal()
		}
	}
	clear(h.heard)
}

// wants reports whether a notice is of what is listened for. An update may be of something below a resource that is
// subscribed to; one of something else altogether goes to all of the client's listens that have subscribed to anything,
// since only the server knows why it sends it. The caller holds h.mu.
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

// Moved implements sessions.Listener: it opens the listen again in another session after s is lost; the client need not know. It is tried at once, unless
// the session lasted too short a time for that.
func (h *listenBridge) Moved(s *sessions.Session) {
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

// waitToReopen waits until it is time to open a session again; false if it is not wanted any more.
func (h *listenBridge) waitToReopen() bool {
	h.mu.Lock()
	tries := h.tries
	h.tries++
	h.mu.Unlock()
	if tries > 0 {
		wait := min(backoffMin<<min(tries-1, 10), backoffMax)
		timer := time.NewTimer(wait + rand.N(wait/2)) //nolint:gosec // jitter
		defer timer.Stop()
		select {
		case <-timer.C:
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

// noteResponse notes that the response has been given out.
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

// end gives the session back, once.
func (h *listenBridge) end(err error) {
	h.mu.Lock()
	if h.ended {
		h.mu.Unlock()
		return
	}
	h.ended, h.err = true, err
	close(h.stop)
	s, subs := h.session, h.subs
	h.forget(false)
	h.session = nil
	h.mu.Unlock()
	h.signal()
	if s != nil {
		s.EndListener(h, subs)
		return
	}
	h.x.pool.DropListener(h.group, h) // it is between two sessions
}
