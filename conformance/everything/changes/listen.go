package changes

import (
	"bytes"
	"io"
	"slices"
	"sync"
	"time"

	"dragoman/conformance/everything/alarm"
	"dragoman/conformance/everything/content"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// filter is the honoured part of a listen's filter.
type filter struct {
	lists [Topics]bool
	uris  []string
}

func (f *filter) wants(n Notice) bool {
	if n.URI != "" {
		return slices.Contains(f.uris, n.URI)
	}
	return f.lists[n.Topic]
}

// filterOf reads params.notifications. Unknown members and unknown resources are ignored.
func (b *Subscribers) filterOf(m *wire.Message) (filter, *proxy.Error) {
	var f filter
	if !m.Notifications.IsObject(m.Raw) {
		return f, proxy.Errf(proxy.InvalidParams, "params.notifications must be an object")
	}
	for t := range Topics {
		key := t.String() + "ListChanged"
		switch string(wire.Get(m.Raw, m.Notifications, key).Of(m.Raw)) {
		case "true":
			f.lists[t] = true
		case "false", "":
		default:
			return f, proxy.Errf(proxy.InvalidParams, "params.notifications.%s must be true or false", key)
		}
	}
	uris := wire.Get(m.Raw, m.Notifications, "resourceSubscriptions")
	if uris.Present() && !content.IsArray(m.Raw, uris) {
		return f, proxy.Errf(proxy.InvalidParams, "params.notifications.resourceSubscriptions must be an array")
	}
	for i, v := range wire.Items(m.Raw, uris) {
		if !v.IsString(m.Raw) {
			return f, proxy.Errf(proxy.InvalidParams, "params.notifications.resourceSubscriptions must hold strings")
		}
		if i >= MaxWatched {
			return f, proxy.Errf(proxy.InvalidParams, "more than %d resources to watch", MaxWatched)
		}
		if uri := string(v.Text(m.Raw)); b.canWatch(uri) && !slices.Contains(f.uris, uri) {
			f.uris = append(f.uris, uri)
		}
	}
	return f, nil
}

// honoured returns the filter for the acknowledgement, raw JSON: only what will be delivered.
func (f *filter) honoured() string {
	pairs := make([]string, 0, 2*Topics+2)
	for t, on := range f.lists {
		if on {
			pairs = append(pairs, Topic(t).String()+"ListChanged", "true")
		}
	}
	if len(f.uris) > 0 {
		b := []byte{'['}
		for i, uri := range f.uris {
			if i > 0 {
				b = append(b, ',')
			}
			b = wire.AppendText(b, uri)
		}
		pairs = append(pairs, "resourceSubscriptions", string(append(b, ']')))
	}
	return content.Object(pairs...)
}

// listen is the Replies of a subscriptions/listen: the acknowledgement, notifications, and the response if the server
// ends it (2026-07-28 subscriptions). It has no goroutine. Unread notifications are kept once for each thing that
// changed, so their number is bounded by the filter.
type listen struct {
	ex     *proxy.Exchange
	board  *Subscribers
	filter filter
	id     []byte // the request's id, raw JSON; also the subscription's id

	mu      sync.Mutex
	pending []Notice

	wake  chan struct{} // holds a token if something is pending
	stop  chan struct{} // closed when the listen is to end
	once  sync.Once
	cause error // why it ended; nil if the server ended it; valid once stop is closed

	acknowledged, answered bool // used by the reader only
	alarm                  alarm.Alarm
}

var (
	_ proxy.Replies = (*listen)(nil)
	_ proxy.Aborter = (*listen)(nil)
)

// Listen answers subscriptions/listen.
func (b *Subscribers) Listen(ex *proxy.Exchange, m wire.Message) (proxy.Replies, error) {
	f, refusal := b.filterOf(&m)
	if refusal != nil {
		return proxy.Reply(proxy.ErrorMessage(m.Of(m.ID), refusal)), nil
	}
	l := &listen{ex: ex, board: b, filter: f, id: bytes.Clone(m.Of(m.ID)), wake: make(chan struct{}, 1), stop: make(chan struct{})}
	if err := b.open(l); err != nil {
		return nil, err
	}
	ex.Attach(l)
	return l, nil
}

// tell queues a notice if the filter wants it.
func (l *listen) tell(n Notice) {
	if !l.filter.wants(n) {
		return
	}
	l.mu.Lock()
	if !slices.Contains(l.pending, n) {
		l.pending = append(l.pending, n)
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// end ends the listen. The first cause counts.
func (l *listen) end(cause error) {
	l.once.Do(func() {
		l.cause = cause
		close(l.stop)
	})
}

// Abort implements proxy.Aborter. It ends the listen because the exchange was cancelled.
func (l *listen) Abort() {
	cause := l.ex.Err()
	if cause == nil {
		cause = proxy.ErrCancelled
	}
	l.end(cause)
}

// Next implements proxy.Replies.
func (l *listen) Next(until time.Time) (*wire.Message, error) {
	if l.answered {
		return nil, io.EOF
	}
	for {
		if m, ok, err := l.take(); ok {
			return m, err
		}
		late, soon := l.alarm.Until(until)
		if !soon {
			select {
			case <-l.stop:
				return l.last()
			default:
				return nil, proxy.ErrNotYet
			}
		}
		select {
		case <-l.wake:
		case <-l.stop:
			return l.last()
		case <-late:
			return nil, proxy.ErrNotYet
		}
	}
}

// take returns the next message, the acknowledgement first.
func (l *listen) take() (*wire.Message, bool, error) {
	if !l.acknowledged {
		l.acknowledged = true
		return scanned([]byte(content.Object("jsonrpc", `"2.0"`, "method", `"notifications/subscriptions/acknowledged"`,
			"params", content.Object("notifications", l.filter.honoured(), "_meta", l.meta()))))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) == 0 {
		return nil, false, nil
	}
	n := l.pending[0]
	l.pending = l.pending[1:]
	return scanned(n.message(l.meta()))
}

func scanned(raw []byte) (*wire.Message, bool, error) {
	m, err := content.Scan(raw)
	return &m, true, err
}

// meta returns the _meta that names the subscription, raw JSON.
func (l *listen) meta() string { return content.Object(wire.MetaPrefix+"subscriptionId", string(l.id)) }

// last returns the response if the server ended the listen, else the cause.
func (l *listen) last() (*wire.Message, error) {
	if l.cause != nil {
		return nil, l.cause
	}
	l.answered = true
	m := proxy.ResultMessage(l.id, []byte(content.Object("resultType", content.Quote(content.Complete), "_meta", l.meta())))
	return &m, nil
}

// Close implements proxy.Replies.
func (l *listen) Close() error {
	l.ex.Detach(l)
	l.board.leave(l)
	l.end(proxy.ErrCancelled)
	l.alarm.Stop()
	return nil
}
