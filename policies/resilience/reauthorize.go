package resilience

import (
	"errors"
	"slices"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Reauthorize returns the policy that repeats a request once if the server refused its token and a token has been
// dropped as invalid since. dropped returns how many tokens have been dropped. A request that is answered with 401 was
// not served, so nothing runs twice.
func Reauthorize(dropped func() int64) proxy.Policy {
	return func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Msg.Kind != wire.Request {
				return next(ex)
			}
			a := &again{next: next, ex: ex, msg: ex.Msg, before: dropped(), dropped: dropped}
			a.msg.Edits = slices.Clip(a.msg.Edits)
			replies, err := next(ex)
			if a.due(err) {
				replies, err = a.retry()
			}
			if err != nil {
				return nil, err
			}
			a.Replies = replies
			return a, nil
		}
	}
}

// again wraps the replies of a request that may be repeated.
type again struct {
	proxy.Replies
	next    proxy.Handler
	ex      *proxy.Exchange
	msg     wire.Message // as it came
	before  int64
	dropped func() int64
	over    bool // it was repeated, or a reply has arrived
}

func (a *again) due(err error) bool {
	e, ok := errors.AsType[*proxy.Error](err)
	return ok && !a.over && e.Name == proxy.Refused.Name && a.dropped() != a.before && a.ex.Err() == nil
}

func (a *again) retry() (proxy.Replies, error) {
	a.over, a.ex.Msg = true, a.msg
	return a.next(a.ex)
}

// Next implements proxy.Replies.
func (a *again) Next(until time.Time) (*wire.Message, error) {
	if a.Replies == nil {
		return nil, proxy.Errf(proxy.Refused, "the upstream server has refused the credentials")
	}
	m, err := a.Replies.Next(until)
	if a.due(err) {
		_ = a.Replies.Close() // it has ended; Close releases what it holds
		if a.Replies, err = a.retry(); err != nil {
			a.Replies = nil
			return m, err
		}
		m, err = a.Replies.Next(until)
	}
	if !errors.Is(err, proxy.ErrNotYet) {
		a.over = true
	}
	return m, err
}

// Close implements proxy.Replies.
func (a *again) Close() error {
	if a.Replies == nil {
		return nil
	}
	return a.Replies.Close()
}
