package subscriptions

import (
	"context"
	"slices"
	"time"

	"dragoman/adapters/era/work"
	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// reconnecting is a modern client's listen at a modern server behind a pipe. A process that ends takes its listens with
// it, and the client, whose connection stands, would not notice. So the listen is opened again at the next process, and
// the client receives notices that everything acknowledged has changed, since nothing is replayed (2026-07-28
// subscriptions).
//
// Its only goroutine waits for the next process and belongs to the upstream.
type reconnecting struct {
	server  Reconnector
	work    *work.Group
	ex      *proxy.Exchange
	edits   []wire.Edit
	replies proxy.Replies // nil while there is no process
	filter  [][]byte      // notices that everything acknowledged has changed
	acked   bool          // the client has its acknowledgement
	renewed bool          // the next acknowledgement is not for the client
	out     [][]byte      // for the client, before further replies
	since   time.Time     // when replies began
	tries   int           // attempts since replies were last steady
	found   chan found    // receives the next process; nil if none is awaited
}

// found is a link to the next process, or the error that prevented one.
type found struct {
	link transport.Link
	err  error
}

// Reconnector opens listens at a modern server whose processes may end.
type Reconnector interface {
	// Link returns a link to a process, which it starts if necessary.
	Link(ctx context.Context, caller proxy.Identity) (transport.Link, error)
	// Begin sends a subscriptions/listen over a link.
	Begin(ex *proxy.Exchange, link transport.Link) (proxy.Replies, error)
}

// Reconnecting begins a listen that survives the end of its process.
func Reconnecting(ex *proxy.Exchange, server Reconnector, group *work.Group) (proxy.Replies, error) {
	v := &reconnecting{server: server, work: group, ex: ex, edits: slices.Clone(ex.Msg.Edits)}
	link, err := server.Link(ex, ex.Caller.Identity())
	if err != nil {
		return nil, err
	}
	if err := v.begin(link); err != nil {
		return nil, err
	}
	return v, nil
}

func (r *reconnecting) begin(link transport.Link) (err error) {
	r.ex.Msg.Edits = slices.Clone(r.edits)
	replies, err := r.server.Begin(r.ex, link)
	if err == nil {
		r.replies, r.since = replies, time.Now()
	}
	return err
}

// Next implements proxy.Replies.
func (r *reconnecting) Next(until time.Time) (*wire.Message, error) {
	for {
		if len(r.out) > 0 {
			raw := r.out[0]
			r.out = r.out[1:]
			return proxy.Scanned(raw)
		}
		if r.replies == nil {
			if err := r.renew(until); err != nil {
				return nil, err
			}
			continue
		}
		m, err := r.replies.Next(until)
		switch {
		case err != nil && r.acked && sessionIsLost(err) && r.ex.Err() == nil && !r.work.Closed():
			r.lost()
		case err != nil || m.Kind != wire.Notification || !m.Is("notifications/subscriptions/acknowledged"):
			return m, err
		case r.renewed:
			r.out, r.renewed = slices.Clone(r.filter), false
		case !r.acked:
			r.acknowledge(m)
			return m, nil
		default:
			return m, nil
		}
	}
}

// acknowledge records what the server acknowledged.
func (r *reconnecting) acknowledge(m *wire.Message) {
	r.acked = true
	var uris []string
	for _, s := range wire.Items(m.Raw, wire.Get(m.Raw, m.Notifications, "resourceSubscriptions")) {
		if len(uris) < maxSubscribed {
			uris = append(uris, string(s.Text(m.Raw)))
		}
	}
	tag := wire.Object([]wire.Change{{Key: wire.MetaPrefix + "subscriptionId", Value: r.ex.Msg.Of(r.ex.Msg.ID)}})
	for _, n := range rules.AllChanged(listsIn(m), uris) {
		msg, err := wire.Scan(n.Msg)
		if err != nil {
			continue // cannot happen: built here
		}
		msg.EditParams([]wire.Change{{Key: "_meta", Value: tag}})
		r.filter = append(r.filter, msg.Append(nil))
	}
}

// lost closes the replies of a process that has ended.
func (r *reconnecting) lost() {
	_ = r.replies.Close()
	r.replies, r.renewed = nil, true
	if time.Since(r.since) >= steadyTime {
		r.tries = 0
	}
}

// renew waits for the next process, at most until the given time, and opens the listen there. Failed starts are retried
// with backoff for as long as the client listens.
func (r *reconnecting) renew(until time.Time) error {
	if r.found == nil {
		r.found = make(chan found, 1)
		where, pause := r.found, r.pause()
		if !r.work.Spawn(func() { where <- r.next(pause) }) {
			return work.ErrClosing()
		}
	}
	select {
	case f := <-r.found:
		r.found = nil
		if f.err == nil {
			f.err = r.begin(f.link)
		}
		if f.err != nil && r.work.Closed() {
			return work.ErrClosing()
		}
		return r.ex.Err() // a failure is retried by Next
	case <-work.After(until):
		return proxy.ErrNotYet
	case <-r.ex.Done():
		return r.ex.Err()
	case <-r.work.Context().Done():
		return work.ErrClosing()
	}
}

// pause returns the delay before the next attempt; the first has none.
func (r *reconnecting) pause() (wait time.Duration) {
	if r.tries > 0 {
		wait = backoff(r.tries)
	}
	r.tries++
	return wait
}

func (r *reconnecting) next(pause time.Duration) found {
	select {
	case <-time.After(pause):
	case <-r.ex.Done():
	case <-r.work.Context().Done():
	}
	if err := r.ex.Err(); err != nil {
		return found{err: err}
	}
	link, err := r.server.Link(r.ex, r.ex.Caller.Identity())
	return found{link, err}
}

// Close implements proxy.Replies.
func (r *reconnecting) Close() error {
	if r.replies == nil {
		return nil
	}
	return r.replies.Close()
}
