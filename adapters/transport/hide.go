package transport

import (
	"context"
	"errors"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Hide returns text without the secrets that a server knows: those of its configuration, and those of the request that ctx is. What a
// server says in its failures may repeat what it was sent, and reaches logs and callers that do not own it. Results are not searched:
// they are the server's answer to its caller, and large.
type Hide func(ctx context.Context, text string) string

// Dial returns a Dial whose links hide secrets in the errors of calls: in those of this process, and in the server's.
func (h Hide) Dial(dial Dial) Dial {
	if dial == nil || h == nil {
		return dial
	}
	return func(ctx context.Context, sink Sink) (Link, error) {
		link, err := dial(ctx, sink)
		if err != nil {
			return nil, h.Error(ctx, err)
		}
		return discreet{link, h}, nil
	}
}

// Policy is the policy that hides secrets in the errors of a server's calls that are made of more than what a link returns.
func (h Hide) Policy(next proxy.Handler) proxy.Handler {
	if h == nil {
		return next
	}
	return func(ex *proxy.Exchange) (proxy.Replies, error) { return h.replies(ex, hiddenCalls)(next(ex)) }
}

// discreet is a link whose calls hide secrets in errors.
type discreet struct {
	Link
	hide Hide
}

// Under returns the wrapped link.
func (d discreet) Under() Link { return d.Link }

// Call implements Link.
func (d discreet) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	return d.hide.replies(ex, hiddenLinks)(d.Link.Call(ex))
}

// Send implements Link.
func (d discreet) Send(ctx context.Context, msg []byte) error {
	return d.hide.Error(ctx, d.Link.Send(ctx, msg))
}

var hiddenLinks, hiddenCalls = proxy.NewSlot(), proxy.NewSlot()

func (h Hide) replies(ex *proxy.Exchange, slot proxy.Slot) func(proxy.Replies, error) (proxy.Replies, error) {
	return func(replies proxy.Replies, err error) (proxy.Replies, error) {
		if err != nil || replies == nil {
			return nil, h.Error(ex, err)
		}
		r := proxy.Lend[hidden](ex, slot)
		*r = hidden{Replies: replies, ex: ex, hide: h}
		return r, nil
	}
}

// hidden is the replies to a call.
type hidden struct {
	proxy.Replies
	ex   *proxy.Exchange
	hide Hide
}

// Under returns the wrapped replies.
func (r *hidden) Under() proxy.Replies { return r.Replies }

// Clear implements proxy.Clearer.
func (r *hidden) Clear() { *r = hidden{} }

// Next implements proxy.Replies.
func (r *hidden) Next(until time.Time) (*wire.Message, error) {
	m, err := r.Replies.Next(until)
	switch {
	case err != nil:
		return m, r.hide.Error(r.ex, err)
	case m.Kind != wire.Failure:
		return m, nil
	}
	raw := m.AppendPart(nil, m.Error)
	without := HideJSON(raw, func(text string) string { return r.hide(r.ex, text) })
	if &without[0] == &raw[0] {
		return m, nil
	}
	with, err := wire.Scan(m.Append(nil))
	if err == nil {
		with.Replace(with.Error, without)
		with, err = with.Clone() // which looks at the parts of the error again
	}
	if err != nil {
		return nil, proxy.Errf(proxy.Internal, "an error without secrets is no message: %w", err)
	}
	return &with, nil
}

// Error returns err without secrets in its text, its data, and the errors behind it.
func (h Hide) Error(ctx context.Context, err error) error {
	if h == nil || err == nil || errors.Is(err, proxy.ErrNotYet) {
		return err
	}
	err, _ = h.of(ctx, err)
	return err
}

// of is Error, and reports whether anything was hidden.
func (h Hide) of(ctx context.Context, err error) (without error, changed bool) {
	switch e := err.(type) {
	case nil:
		return nil, false
	case *proxy.Error:
		with := *e
		with.Message = h(ctx, e.Message)
		with.Data = HideJSON(e.Data, func(text string) string { return h(ctx, text) })
		with.Cause, changed = h.of(ctx, e.Cause)
		if changed = changed || with.Message != e.Message || string(with.Data) != string(e.Data); changed {
			return &with, true
		}
		return e, false
	case *StatusError:
		with := *e
		if with.Text, with.Location = h(ctx, e.Text), h(ctx, e.Location); with == *e {
			return e, false
		}
		return &with, true
	}
	text := h(ctx, err.Error())
	for inner, _ := errors.AsType[*proxy.Error](err); inner != nil && !changed; inner = nil {
		_, changed = h.of(ctx, inner)
	}
	if !changed && text == err.Error() {
		return err, false
	}
	return &hiddenError{text, err, h, ctx}, true
}

// hiddenError is an error with another text. The errors behind it are found by errors.Is and errors.As, without their secrets.
type hiddenError struct {
	text string
	err  error
	hide Hide
	ctx  context.Context //nolint:containedctx // of the request that the error answers
}

// Error implements error.
func (e *hiddenError) Error() string { return e.text }

// Is is for errors.Is.
func (e *hiddenError) Is(target error) bool { return errors.Is(e.err, target) }

// As is for errors.As.
func (e *hiddenError) As(target any) bool {
	if !errors.As(e.err, target) {
		return false
	}
	switch found := target.(type) {
	case **proxy.Error:
		_ = errors.As(e.hide.Error(e.ctx, *found), found)
	case **StatusError:
		_ = errors.As(e.hide.Error(e.ctx, *found), found)
	}
	return true
}
