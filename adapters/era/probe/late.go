package probe

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
	// lateTime is how long to wait for an answer to server/discover once a second process has answered.
	lateTime = 100 * time.Millisecond
	// endTime is how long a step waits for the process of the previous step to end, since some servers allow one process at a time.
	// Slower ones end in the background.
	endTime = 500 * time.Millisecond
)

// lateDiscover is a server/discover that a process has not answered within probe_timeout. The server may not know the method, or be slow to
// start. So the process is kept until a second one has answered initialize: by then the first has had more time than the second.
type lateDiscover struct {
	link    transport.Link
	replies proxy.Replies
	stop    func() bool
}

// sendDiscover sends server/discover over a link. It returns a late if no answer comes in time.
func (p *prober) sendDiscover(ctx context.Context, link transport.Link) (m wire.Message, l *lateDiscover, err error) {
	ex, err := transport.NewExchange(proxy.Modern, rules.DiscoverRequest(p.self, nil))
	if err != nil {
		return m, nil, err
	}
	ex.Caller.Forwarded = proxy.ForwardedFrom(ctx)
	stop := ex.Follow(ctx)
	replies, err := link.Call(ex)
	if err != nil {
		stop()
		return m, nil, err
	}
	m, err = response(replies, time.Now().Add(p.timeout))
	if errors.Is(err, proxy.ErrNotYet) {
		err = proxy.Errf(proxy.UpstreamTimeout, "no answer to server/discover in time%s", transport.LastWords(link))
		return m, &lateDiscover{link, replies, stop}, err
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

// settle returns the late link if its server has answered as a modern one meanwhile, and closes it otherwise.
func (p *prober) settle(v *Profile) transport.Link {
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
	p.closeLink(l.link)
	return nil
}

// closeLink closes the link of one step.
func (p *prober) closeLink(link transport.Link) {
	ended := make(chan struct{})
	p.spawn(func() {
		defer close(ended)
		_ = link.Close()
	})
	timer := time.NewTimer(endTime)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
}
