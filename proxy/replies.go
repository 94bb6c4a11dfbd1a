package proxy

import (
	"errors"
	"io"
	"time"

	"dragoman/proxy/wire"
)

// Replies is what comes back for one request: any number of notifications (and, from a legacy server, questions, Kind
// Request), then exactly one response, then io.EOF.
type Replies interface {
	// Next waits for the next message, until the given time at most; the zero time means without limit. At that time it
	// returns ErrNotYet and may be called again: nothing is lost. The message is borrowed until the next call, and the caller
	// may edit it. An error other than ErrNotYet and io.EOF ends the exchange; it is an *Error if a client may see it.
	Next(until time.Time) (*wire.Message, error)
	// Close ends the exchange and releases its resources. Before the response was read it cancels the call upstream. It is called
	// exactly once, by the goroutine that calls Next.
	Close() error
}

// ErrNotYet means that no message arrived before the deadline of Next.
var ErrNotYet = errors.New("proxy: no reply yet")

// Handler handles one exchange. For a request it answers Replies, or an error and no Replies; for a notification both
// are nil, or there is an error.
type Handler func(ex *Exchange) (Replies, error)

// Policy judges or changes exchanges on their way to the next Handler.
type Policy func(next Handler) Handler

// Chain puts policies around a handler: the first is the outermost, nil is none.
func Chain(h Handler, policies ...Policy) Handler {
	for i := len(policies) - 1; i >= 0; i-- {
		if policies[i] != nil {
			h = policies[i](h)
		}
	}
	return h
}

// Upstream is one server, or something that answers like one.
type Upstream interface {
	Do(ex *Exchange) (Replies, error)
	Close() error
}

// Around puts policies around an upstream: those that belong to one server, within those that belong to all.
func Around(u Upstream, policies ...Policy) Upstream {
	if len(policies) == 0 {
		return u
	}
	return guarded{u, Chain(u.Do, policies...)}
}

type guarded struct {
	Upstream
	do Handler
}

// Do implements Upstream.
func (g guarded) Do(ex *Exchange) (Replies, error) { return g.do(ex) }

// Reply is the Replies of a request that is answered here: one response. raw must be a scanned message.
func Reply(m wire.Message) Replies { return &single{m: m} }

type single struct {
	m    wire.Message
	done bool
}

func (s *single) Next(time.Time) (*wire.Message, error) {
	if s.done {
		return nil, io.EOF
	}
	s.done = true
	return &s.m, nil
}

func (s *single) Close() error { return nil }

// Scanned returns a message as Next does.
func Scanned(raw []byte) (*wire.Message, error) {
	m, err := wire.Scan(raw)
	if err != nil {
		return nil, err
	}
	return &m, nil
}

// Response reads replies up to the response, dropping notifications, and closes them. It is for Dragoman's own exchanges. The message
// belongs to the caller.
func Response(r Replies, until time.Time) (wire.Message, error) {
	defer func() { _ = r.Close() }()
	for {
		m, err := r.Next(until)
		if err != nil {
			return wire.Message{}, err
		}
		if m.IsResponse() {
			return m.Clone()
		}
	}
}

// ResultMessage returns the response to the request with the given id, with a result; both are raw JSON.
func ResultMessage(id, result []byte) wire.Message {
	raw := make([]byte, 0, len(id)+len(result)+40)
	raw = append(raw, `{"jsonrpc":"2.0","id":`...)
	raw = append(raw, id...)
	raw = append(raw, `,"result":`...)
	raw = append(raw, result...)
	m, err := wire.Scan(append(raw, '}'))
	if err != nil {
		return ErrorMessage(id, Errf(Internal, "an answer made here is no message: %v", err))
	}
	return m
}

// ErrorMessage returns the error response to the request with the given id (raw JSON; nil if it could not be read).
func ErrorMessage(id []byte, e *Error) wire.Message {
	raw := append([]byte(nil), `{"jsonrpc":"2.0"`...)
	if id != nil {
		raw = append(append(raw, `,"id":`...), id...)
	}
	raw = append(raw, `,"error":`...)
	raw = e.AppendJSON(raw)
	m, err := wire.Scan(append(raw, '}'))
	if err != nil {
		m, _ = wire.Scan([]byte(`{"jsonrpc":"2.0","error":{"code":-32603,"message":"internal error"}}`))
	}
	return m
}

// ListenEnd returns the response with which a server ends a subscriptions/listen. id is that of its request, raw JSON (2026-07-28
// subscriptions, Graceful Closure).
func ListenEnd(id []byte) wire.Message {
	result := append([]byte(`{"resultType":"complete","_meta":{"`+wire.MetaPrefix+`subscriptionId":`), id...)
	return ResultMessage(id, append(result, "}}"...))
}
