package transport

import (
	"context"
	"errors"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// NewExchange returns an exchange of Dragoman's own for a raw message, as of a client of the given era.
func NewExchange(era proxy.Era, raw []byte) (*proxy.Exchange, error) {
	m, err := wire.Scan(raw)
	if err != nil {
		return nil, err
	}
	return &proxy.Exchange{Msg: m, Client: proxy.Client{Era: era}}, nil
}

// Ask sends a request over a link and waits for its response until ctx ends. An exchange without forwarded headers gets those of ctx
// ([proxy.ForwardedFrom]). An error response is no error. At the deadline of ctx the error is UpstreamTimeout.
func Ask(ctx context.Context, link Link, ex *proxy.Exchange) (wire.Message, error) {
	if ex.Caller.Forwarded == nil {
		ex.Caller.Forwarded = proxy.ForwardedFrom(ctx)
	}
	defer ex.Follow(ctx)()
	replies, err := link.Call(ex)
	if err != nil {
		return wire.Message{}, err
	}
	until, _ := ctx.Deadline()
	m, err := proxy.Response(replies, until)
	cut := errors.Is(err, proxy.ErrCancelled) && errors.Is(ctx.Err(), context.DeadlineExceeded) // both end at the same time
	if errors.Is(err, proxy.ErrNotYet) || errors.Is(err, context.DeadlineExceeded) || cut {
		return m, proxy.Errf(proxy.UpstreamTimeout, "no answer to %s in time%s", ex.Msg.Text(ex.Msg.Method), LastWords(link))
	}
	return m, err
}

// Discard is a Sink that drops all messages.
type Discard struct{}

// Message implements Sink.
func (Discard) Message(*wire.Message) bool { return false }

// Lost implements Sink.
func (Discard) Lost(error) {}

// Along cancels Inner together with the exchange that it is attached to.
type Along struct{ Inner *proxy.Exchange }

// Abort implements proxy.Aborter.
func (a Along) Abort() { a.Inner.Cancel(proxy.ErrCancelled) }
