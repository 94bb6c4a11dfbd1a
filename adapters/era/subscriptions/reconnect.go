package subscriptions

import (
	"bytes"
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
	id      []byte // of the request, raw JSON
	edits   []wire.Edit
	replies proxy.Replies  // nil while there is no process
	filter  []rules.Notice // notices that everything acknowledged has changed
	acked   bool           // the client has its acknowledgement
	renewed bool           // the next acknowledgement is not for the client
	out     []rules.Notice // for the client, before further replies
	since   time.Time      // when replies began
	tries   int            // attempts since replies were last steady
	found   chan found     // receives the next process; nil if none is awaited
}

// found is a link to the next process, or the error that prevented one.
type found struct {
	link transport.Link
	err  error
}

// Reconnector opens listens at a modern server whose processes may end.
type Reconnector interface {
	// Link returns a link to a process, which it starts if necessary.
	Link(ctx context.Context, principal string) (transport.Link, error)
	// Begin sends a subscriptions/listen over a link.
	Begin(ex *proxy.Exchange, link transport.Link) (proxy.Replies, error)
}

// Reconnecting begins a listen that survives the end of its process.
func Reconnecting(ex *proxy.Exchange, server Reconnector, group *work.Group) (proxy.Replies, error) {
	v := &reconnecting{server: server, work: group, ex: ex, id: bytes.Clone(ex.Msg.Of(ex.Msg.ID)), edits: slices.Clone(ex.Msg.Edits)}
	link, err := server.Link(ex, ex.Caller.Principal)
	if err != nil {
		return nil, err
	}
	if err := v.begin(link); err != nil {
		return nil, err
	}
	return v, nil
}

func (v *reconnecting) begin(link transport.Link) (err error) {
	v.ex.Msg.Edits = slices.Clone(v.edits)
	replies, err := v.server.Begin(v.ex, link)
	if err == nil {
		v.replies, v.since = replies, time.Now()
	}
	return err
}

// Next implements proxy.Replies.
func (v *reconnecting) Next(until time.Time) (*wire.Message, error) {
	for {
		if len(v.out) > 0 {
			raw := v.out[0].Msg
			v.out = v.out[1:]
			return proxy.Scanned(raw)
		}
		if v.replies == nil {
			if err := v.renew(until); err != nil {
				return nil, err
			}
			continue
		}
		m, err := v.replies.Next(until)
		switch {
		case err != nil && v.acked && sessionIsLost(err) && v.ex.Err() == nil && !v.work.Closed():
			v.lost()
		case err != nil || m.Kind != wire.Notification || !m.Is("notifications/subscriptions/acknowledged"):
			return m, err
		case v.renewed:
			v.out, v.renewed = slices.Clone(v.filter), false
		case !v.acked:
			v.acknowledge(m)
			return m, nil
		default:
			return m, nil
		}
	}
}

// acknowledge records what the server acknowledged.
func (v *reconnecting) acknowledge(m *wire.Message) {
	v.acked = true
	var uris []string
	for _, s := range wire.Items(m.Raw, wire.Get(m.Raw, m.Notifications, "resourceSubscriptions")) {
		if len(uris) < maxSubscribed {
			uris = append(uris, string(s.Text(m.Raw)))
		}
	}
	tag := wire.Object([]wire.Change{{Key: wire.MetaPrefix + "subscriptionId", Value: v.id}})
	for _, n := range rules.AllChanged(listsIn(m), uris) {
		msg, err := wire.Scan(n.Msg)
		if err != nil {
			continue // cannot happen: built here
		}
		msg.EditParams([]wire.Change{{Key: "_meta", Value: tag}})
		v.filter = append(v.filter, rules.Notice{Key: n.Key, Msg: msg.Append(nil)})
	}
}

// lost closes the replies of a process that has ended.
func (v *reconnecting) lost() {
	_ = v.replies.Close()
	v.replies, v.renewed = nil, true
	if time.Since(v.since) >= steadyTime {
		v.tries = 0
	}
}

// renew waits for the next process, at most until the given time, and opens the listen there. Failed starts are retried
// with backoff for as long as the client listens.
func (v *reconnecting) renew(until time.Time) error {
	if v.found == nil {
		v.found = make(chan found, 1)
		where, pause := v.found, v.pause()
		if !v.work.Spawn(func() { where <- v.next(pause) }) {
			return work.ErrClosing()
		}
	}
	select {
	case f := <-v.found:
		v.found = nil
		if f.err == nil {
			f.err = v.begin(f.link)
		}
		if f.err != nil && v.work.Closed() {
			return work.ErrClosing()
		}
		return v.ex.Err() // a failure is retried by Next
	case <-work.After(until):
		return proxy.ErrNotYet
	case <-v.ex.Done():
		return v.ex.Err()
	case <-v.work.Context().Done():
		return work.ErrClosing()
	}
}

// pause returns the delay before the next attempt; the first has none.
func (v *reconnecting) pause() (wait time.Duration) {
	if v.tries > 0 {
		wait = backoff(v.tries)
	}
	v.tries++
	return wait
}

func (v *reconnecting) next(pause time.Duration) found {
	select {
	case <-time.After(pause):
	case <-v.ex.Done():
	case <-v.work.Context().Done():
	}
	if err := v.ex.Err(); err != nil {
		return found{err: err}
	}
	link, err := v.server.Link(v.ex, v.ex.Caller.Principal)
	return found{link, err}
}

// Close implements proxy.Replies.
func (v *reconnecting) Close() error {
	if v.replies == nil {
		return nil
	}
	return v.replies.Close()
}
