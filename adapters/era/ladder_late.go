package era

import (
	"context"
	"errors"
	"time"

	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

const (
	// lateTime is how long an answer to server/discover is still waited for once another process has been heard.
	lateTime = 100 * time.Millisecond
	// byeTime is how long the next step waits for the process of the one before to end. Most end at once, and of some there may
	// be only one at a time; those that take their graces end in the background.
	byeTime = 500 * time.Millisecond
)

// late is a server/discover that a process has not answered within probe_timeout. Silence tells nothing: the server may not
// know the method, or may only take long to start. So it is kept until a second process has answered to initialize; the
// first has had more time than that one by then.
type late struct {
	link    transport.Link
	replies proxy.Replies
	stop    func() bool
}

// knock asks a process what it is, and answers a late if it says nothing in time.
func (p *prober) knock(ctx context.Context, link transport.Link) (m wire.Message, l *late, err error) {
	ex, err := transport.NewExchange(proxy.Modern, rules.DiscoverRequest(p.self, nil))
	if err != nil {
		return m, nil, err
	}
	ex.Caller.Carried = proxy.CarriedIn(ctx)
	stop := ex.Follow(ctx)
	replies, err := link.Call(ex)
	if err != nil {
		stop()
		return m, nil, err
	}
	m, err = response(replies, time.Now().Add(p.timeout))
	if errors.Is(err, proxy.ErrNotYet) {
		err = proxy.Errf(proxy.UpstreamTimeout, "no answer to server/discover in time%s", transport.LastWords(link))
		return m, &late{link, replies, stop}, err
	}
	stop()
	_ = replies.Close()
	return m, nil, err
}

// response waits for the response and leaves the replies open.
func response(replies proxy.Replies, until time.Time) (wire.Message, error) {
	for {
		m, err := replies.Next(until)
		if err != nil {
			return wire.Message{}, err
		}
		if m.IsResponse() {
			return m.Clone()
		}
	}
}

// settle answers the link if the server has shown itself to be modern meanwhile, and gives it up otherwise.
func (p *prober) settle(v *Verdict) transport.Link {
	l := p.late
	if l == nil {
		return nil
	}
	p.late = nil
	m, err := response(l.replies, time.Now().Add(lateTime))
	modern := err == nil && p.isModern(v, &m)
	l.stop()
	_ = l.replies.Close()
	if modern {
		return l.link
	}
	p.part(l.link)
	return nil
}

// part ends a link that was only for a step.
func (p *prober) part(link transport.Link) {
	ended := make(chan struct{})
	p.spawn(func() {
		defer close(ended)
		_ = link.Close()
	})
	bye := time.NewTimer(byeTime)
	defer bye.Stop()
	select {
	case <-ended:
	case <-bye.C:
	}
}
