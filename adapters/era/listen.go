package era

import (
	"bytes"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Bounds of a listen at a legacy server.
const (
	maxNotices = 512                   // that wait for the client, of which those that say the same are one
	echoTime   = 50 * time.Millisecond // within which notices in two sessions of one client are taken for one
)

// listChanged is the method that announces a change of a list: tools, prompts or resources.
func listChanged(list string) string { return "notifications/" + list + "/list_changed" }

// missed makes the notices that stand for whatever was not heard: nothing is sent twice by a server.
func missed(lists, uris []string) (out []notice) {
	for _, list := range lists {
		out = append(out, notice{listChanged(list), []byte(`{"jsonrpc":"2.0","method":"` + listChanged(list) + `"}`)})
	}
	for _, uri := range uris {
		msg := wire.AppendText([]byte(`{"jsonrpc":"2.0","method":"`+updated+`","params":{"uri":`), uri)
		out = append(out, notice{updated + " " + uri, append(msg, "}}"...)})
	}
	return out
}

// hearing is a subscriptions/listen of a modern client at a legacy server: it holds a session, whose notices it gets, and
// those of the client's other sessions, in which its calls may run.
type hearing struct {
	u    *Upstream
	ex   *proxy.Exchange
	id   []byte // of the request, raw JSON: the subscription's id
	want []string
	uris []string

	mu      sync.Mutex
	session *pooled         // nil while it is being opened again
	lists   []string        // whose changes are delivered
	subs    []string        // URIs that the server has accepted
	acked   bool            // the acknowledgement is in the queue
	queue   []notice        // for the client
	heard   map[string]echo // when what was last heard, and where
	ended   bool
	err     error
	wake    chan struct{}
	polling bool
	over    chan struct{} // closed at the end
}

// echo remembers when a notice came in the listen's own session, and whether one from another waits to see if it will.
type echo struct {
	own     time.Time
	waiting *time.Timer
}

// listen answers subscriptions/listen at a legacy server: acknowledged is what the server can deliver.
func (u *Upstream) listen(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	if !m.Notifications.IsObject(m.Raw) {
		return nil, proxy.Errf(proxy.InvalidParams, "params.notifications must be an object")
	}
	h := &hearing{u: u, ex: ex, id: bytes.Clone(m.Of(m.ID)), heard: make(map[string]echo), wake: make(chan struct{}, 1), over: make(chan struct{})}
	for _, list := range noticeLists {
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
	if err := h.open(false); err != nil {
		return nil, err
	}
	ex.Attach(h)
	return h, nil
}

// open takes a session and subscribes in it; again says that the client has been told before.
func (h *hearing) open(again bool) error {
	s, err := h.u.pool.acquire(h.ex, false)
	if err != nil {
		return err
	}
	s.addListen(h)
	var lists, subs []string
	for _, list := range h.want {
		if s.hello.can(list, "listChanged") && s.delivers() {
			lists = append(lists, list)
		}
	}
	if s.hello.can("resources", "subscribe") && s.delivers() {
		for _, uri := range h.uris {
			if !s.pushes() || s.subscribe(h.ex, uri) == nil {
				subs = append(subs, uri)
			}
		}
	}
	h.mu.Lock()
	if h.ended {
		h.mu.Unlock()
		s.endListen(h, subs)
		return h.ex.Err()
	}
	h.session, h.lists, h.subs = s, lists, subs
	if !s.pushes() && !h.polling && len(lists)+len(subs) > 0 {
		h.polling = true
		h.u.group.Go(h.poll)
	}
	if again { // nobody heard anything while the session was being opened
		for _, n := range missed(lists, subs) {
			h.add(n.key, n.msg)
		}
	} else {
		h.acknowledge()
	}
	h.mu.Unlock()
	h.signal()
	if s.gone() { // while it was being set up
		h.moved(s)
	}
	return nil
}

// acknowledge makes the first message, ahead of all notices; with nothing to deliver, also the last. The caller holds h.mu.
func (h *hearing) acknowledge() {
	var honoured []wire.Change
	for _, list := range h.lists {
		honoured = append(honoured, wire.Change{Key: list + "ListChanged", Value: []byte("true")})
	}
	if len(h.subs) > 0 {
		uris := []byte{'['}
		for i, uri := range h.subs {
			if i > 0 {
				uris = append(uris, ',')
			}
			uris = wire.AppendText(uris, uri)
		}
		honoured = append(honoured, wire.Change{Key: "resourceSubscriptions", Value: append(uris, ']')})
	}
	params := object([]wire.Change{{Key: "_meta", Value: h.tag()}, {Key: "notifications", Value: object(honoured)}})
	ack := append([]byte(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":`), params...)
	h.queue = append([]notice{{"", append(ack, '}')}}, h.queue...)
	if h.acked = true; len(honoured) == 0 {
		h.queue = append(h.queue, notice{"", proxy.ListenEnd(h.id).Raw})
	}
}

// tag is the _meta of everything that a listen delivers.
func (h *hearing) tag() []byte {
	return object([]wire.Change{{Key: meta + "subscriptionId", Value: h.id}})
}

// add queues a notice of the server's, tagged. The caller holds h.mu.
func (h *hearing) add(key string, raw []byte) {
	m, err := wire.Scan(raw)
	if err != nil || h.ended {
		return
	}
	switch id := (wire.Change{Key: meta + "subscriptionId", Value: h.id}); {
	case m.Meta.IsObject(m.Raw):
		m.EditObject(m.Meta, []wire.Change{id})
	default:
		editParams(&m, []wire.Change{{Key: "_meta", Value: h.tag()}})
	}
	for _, n := range h.queue {
		if n.key == key {
			return // it waits already: what it says has not been said yet
		}
	}
	if len(h.queue) >= maxNotices {
		h.queue = slices.Delete(h.queue, 1, 2)
	}
	h.queue = append(h.queue, notice{key, m.Append(nil)})
}

func (h *hearing) signal() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// hear takes a notice that came in the session from. What another session of the client hears is given out unless the
// listen's own hears the same at the same time: some servers tell every session, some only the one whose call it was.
func (h *hearing) hear(from *pooled, m *wire.Message) {
	key := noticeKey(m)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended || !h.wants(m) {
		return
	}
	raw := m.Append(nil)
	if len(h.heard) > 4*maxNotices {
		h.forget()
	}
	e := h.heard[key]
	if from == h.session || h.session == nil && !h.acked {
		if e.own = time.Now(); e.waiting != nil {
			e.waiting.Stop()
			e.waiting = nil
		}
		h.heard[key] = e
		h.add(key, raw)
		h.signal()
		return
	}
	if e.waiting != nil || time.Since(e.own) < echoTime {
		return
	}
	e.waiting = time.AfterFunc(echoTime, func() { h.echoless(key, raw) })
	h.heard[key] = e
}

// echoless gives out what was heard in another session only.
func (h *hearing) echoless(key string, raw []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.heard[key]
	if e.waiting == nil {
		return
	}
	delete(h.heard, key)
	h.add(key, raw)
	h.signal()
}

// forget forgets what was heard when. The caller holds h.mu.
func (h *hearing) forget() {
	for _, e := range h.heard {
		if e.waiting != nil {
			e.waiting.Stop()
		}
	}
	clear(h.heard)
}

// wants tells whether a notice is of what is listened for. An update may be of something below a resource that is
// subscribed to; one of something else altogether goes to everybody who has subscribed to anything, since only the server
// knows why it sends it. The caller holds h.mu.
func (h *hearing) wants(m *wire.Message) bool {
	method := string(m.Text(m.Method))
	if method != updated {
		return slices.ContainsFunc(h.want, func(list string) bool { return listChanged(list) == method })
	}
	uri := string(m.Text(m.URI))
	if slices.ContainsFunc(h.uris, func(s string) bool { return below(uri, s) }) {
		return true
	}
	return len(h.uris) > 0 && !h.u.pool.subscribed(uri)
}

// moved opens the listen again in another session after s is lost; the client need not know.
func (h *hearing) moved(s *pooled) {
	h.mu.Lock()
	if h.ended || h.session != s {
		h.mu.Unlock()
		return
	}
	h.session = nil
	h.mu.Unlock()
	s.release(false)
	h.u.group.Go(func() {
		for wait := backoffLeast; h.ex.Err() == nil && h.u.ctx.Err() == nil; wait = min(2*wait, backoffMost) {
			if h.open(true) == nil {
				return
			}
			timer := time.NewTimer(wait/2 + rand.N(wait)) //nolint:gosec // jitter
			select {
			case <-timer.C:
			case <-h.ex.Done():
			case <-h.u.ctx.Done():
			}
			timer.Stop()
		}
		h.end(proxy.Errf(proxy.ShuttingDown, "the proxy is shutting down"))
	})
}

// Next implements proxy.Replies.
func (h *hearing) Next(until time.Time) (wire.Message, error) {
	for {
		h.mu.Lock()
		if h.acked && len(h.queue) > 0 {
			n := h.queue[0]
			h.queue = h.queue[1:]
			h.mu.Unlock()
			return wire.Scan(n.msg)
		}
		ended, err := h.ended, h.err
		h.mu.Unlock()
		switch {
		case err != nil:
			return wire.Message{}, err
		case ended:
			return wire.Message{}, io.EOF
		case !pause(h.wake, until):
			return wire.Message{}, proxy.ErrNotYet
		}
	}
}

// Abort implements proxy.Aborter.
func (h *hearing) Abort() { h.end(h.ex.Err()) }

// Close implements proxy.Replies.
func (h *hearing) Close() error {
	h.ex.Detach(h)
	h.end(io.EOF)
	return nil
}

// end gives the session back, once.
func (h *hearing) end(err error) {
	h.mu.Lock()
	if h.ended {
		h.mu.Unlock()
		return
	}
	h.ended, h.err = true, err
	close(h.over)
	s, subs := h.session, h.subs
	h.forget()
	h.session = nil
	h.mu.Unlock()
	h.signal()
	if s != nil {
		s.endListen(h, subs)
	}
}
