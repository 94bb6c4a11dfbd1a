package era

import (
	"io"
	"slices"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// subscribe answers resources/subscribe once a listen that includes the resource has been acknowledged.
func (u *Upstream) subscribe(ex *proxy.Exchange) (proxy.Replies, error) {
	w, uri, err := u.watched(ex)
	if err != nil {
		return nil, err
	}
	a := &joining{w: w, ex: ex, uri: uri, at: time.Now(), done: make(chan struct{})}
	w.change(func() { w.join(a) })
	return a, nil
}

// unsubscribe answers resources/unsubscribe. The listen keeps what it was opened with until the next one; meanwhile the
// notices are filtered here.
func (u *Upstream) unsubscribe(ex *proxy.Exchange) (proxy.Replies, error) {
	w, uri, err := u.watched(ex)
	if err != nil {
		return nil, err
	}
	w.change(func() {
		w.uris = slices.DeleteFunc(w.uris, func(s string) bool { return s == uri })
		for _, a := range slices.Concat(w.joins, w.opening) {
			a.gone = a.gone || a.uri == uri // it is answered, and taken back with that
		}
	})
	return proxy.Reply(proxy.ResultMessage(ex.Msg.Of(ex.Msg.ID), []byte("{}"))), nil
}

// watched answers the watch of the exchange's session, and the resource that the request is about.
func (u *Upstream) watched(ex *proxy.Exchange) (*watch, string, error) {
	w := u.watches.get(ex.Session)
	if w == nil || !w.subscribes {
		return nil, "", proxy.Errf(proxy.MethodNotFound, "the server does not have the capability resources.subscribe")
	}
	m := &ex.Msg
	uri := string(m.Text(m.URI))
	if uri == "" {
		return nil, "", proxy.Errf(proxy.InvalidParams, "params.uri must be the URI of a resource")
	}
	return w, uri, nil
}

// join takes a subscription: it is answered at once if the listen has the resource already, or had it before it broke
// off. The caller holds w.mu.
func (w *watch) join(a *joining) {
	w.ready = true
	size := len(a.uri)
	for _, uri := range w.uris {
		size += len(uri)
	}
	for _, other := range w.joins {
		size += len(other.uri)
	}
	switch {
	case slices.Contains(w.uris, a.uri):
		a.settle(nil)
	case len(w.uris)+len(w.joins)+len(w.opening) >= maxSubscribed, size > subscribedBytes:
		a.settle(proxy.Errf(proxy.InvalidParams, "more than %d subscriptions, or %d bytes of URIs, in one session; unsubscribe from some",
			maxSubscribed, subscribedBytes))
	case w.now != nil && slices.Contains(w.now.honoured, a.uri):
		w.uris = append(w.uris, a.uri)
		a.settle(nil)
	default:
		w.joins = append(w.joins, a)
	}
}

// joining is the Replies of one resources/subscribe.
type joining struct {
	w    *watch
	ex   *proxy.Exchange
	uri  string
	at   time.Time
	done chan struct{} // closed when it is settled

	err     error // under w.mu until done is closed
	settled bool  // under w.mu
	gone    bool  // under w.mu: the client has taken it back
	given   bool
}

// settle decides the answer: nil is success. The caller holds w.mu.
func (a *joining) settle(err error) {
	if a.settled {
		return
	}
	a.settled, a.err = true, err
	close(a.done)
}

// Next implements proxy.Replies.
func (a *joining) Next(until time.Time) (wire.Message, error) {
	if a.given {
		return wire.Message{}, io.EOF
	}
	var end <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(time.Until(until))
		defer t.Stop()
		end = t.C
	}
	select {
	case <-a.done:
	case <-a.ex.Done():
		return wire.Message{}, a.ex.Err()
	case <-end:
		return wire.Message{}, proxy.ErrNotYet
	}
	a.given = true
	if a.err != nil {
		return wire.Message{}, a.err
	}
	return proxy.ResultMessage(a.ex.Msg.Of(a.ex.Msg.ID), []byte("{}")), nil
}

// Close implements proxy.Replies: a subscription that is closed before its answer is not made.
func (a *joining) Close() error {
	a.w.change(func() {
		a.gone = a.gone || !a.settled
		a.w.joins = slices.DeleteFunc(a.w.joins, func(o *joining) bool { return o == a })
	})
	return nil
}
