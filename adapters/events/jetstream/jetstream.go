// Package jetstream publishes CloudEvents to a stream of NATS JetStream (CloudEvents 1.0, NATS protocol binding).
package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"dragoman/adapters/events"
)

// Options configures a [Sink].
type Options struct {
	URLs    []string // nats://HOST:PORT or tls://HOST:PORT of the servers of one cluster, without credentials
	Subject string   // of messages; {type} stands for the type of the event
	Binary  bool     // attributes are headers; else the message is an event in JSON
	// Authorization is a token, or USER:PASSWORD; empty: neither.
	Authorization string
	Credentials   string        // file with a JWT and its key; empty: none
	CAFile        string        // PEM file of the roots to trust instead of the system's
	Timeout       time.Duration // to connect
}

// Sink publishes events, each with a message id by which the stream drops repeats, and awaits the acknowledgement of the stream. It connects when it has
// something to send, and again, however long that takes, when the connection is lost.
type Sink struct {
	opt Options

	mu     sync.Mutex
	conn   *nats.Conn // nil: not connected yet
	stream jetstream.JetStream
	closed bool
	up     context.Context // ends when the connection breaks
	broken context.CancelFunc
}

// New returns a Sink.
func New(opt Options) *Sink {
	s := &Sink{opt: opt}
	s.up, s.broken = context.WithCancel(context.Background())
	return s
}

const (
	reconnectPause  = 250 * time.Millisecond
	reconnectJitter = 250 * time.Millisecond
	pingInterval    = 10 * time.Second // two without an answer end a connection that is half open
)

var (
	errClosed = errors.New("the connection to NATS is closed")
	errAway   = errors.New("NATS cannot be reached")
	errBroken = errors.New("the connection to NATS broke before the stream acknowledged")
)

// connect returns the stream of a connection that is up, and a context that ends when the connection breaks.
func (s *Sink) connect() (jetstream.JetStream, context.Context, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, nil, errClosed
	case s.conn != nil && s.conn.IsConnected():
		return s.stream, s.up, nil
	case s.conn != nil && !s.conn.IsClosed():
		return nil, nil, errAway // it connects again by itself
	}
	conn, err := nats.Connect(strings.Join(s.opt.URLs, ","), s.options()...)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errAway, err)
	}
	stream, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	s.conn, s.stream = conn, stream
	return stream, s.up, nil
}

// disconnected ends what waits for an acknowledgement: nats.go does not, and the time of an attempt would pass in vain.
func (s *Sink) disconnected(*nats.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken()
	s.up, s.broken = context.WithCancel(context.Background())
}

func (s *Sink) options() []nats.Option {
	all := []nats.Option{nats.Name("dragoman"), nats.Timeout(s.opt.Timeout), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectPause), nats.ReconnectJitter(reconnectJitter, reconnectJitter),
		nats.ReconnectBufSize(-1), // an event that waits there could overtake one that is tried again
		nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(2), nats.FlusherTimeout(s.opt.Timeout), nats.IgnoreAuthErrorAbort(),
		nats.DisconnectErrHandler(s.disconnected),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})} // the standard one writes to standard error
	if user, password, both := strings.Cut(s.opt.Authorization, ":"); both {
		all = append(all, nats.UserInfo(user, password))
	} else if user != "" {
		all = append(all, nats.Token(user))
	}
	if s.opt.Credentials != "" {
		all = append(all, nats.UserCredentials(s.opt.Credentials))
	}
	if s.opt.CAFile != "" {
		all = append(all, nats.RootCAs(s.opt.CAFile))
	}
	return all
}

// Deliver implements events.Sink. It publishes one event after the other, each when the one before is acknowledged: what is under way when a
// connection breaks could otherwise be overtaken.
func (s *Sink) Deliver(ctx context.Context, all []*events.Event) error {
	stream, up, err := s.connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(up, func() { cancel(errBroken) })()
	for _, e := range all {
		if _, err := stream.PublishMsg(ctx, s.message(e), jetstream.WithRetryAttempts(0)); err != nil {
			if cause := context.Cause(ctx); errors.Is(cause, errBroken) {
				err = cause
			}
			return s.explained(e, err)
		}
	}
	return nil
}

// message makes the message of an event.
func (s *Sink) message(e *events.Event) *nats.Msg {
	m := nats.NewMsg(s.subject(e.Type))
	if s.opt.Binary {
		m.Data = e.Data
		for _, h := range e.Headers() {
			m.Header[strings.ToLower(h.Name)] = []string{h.Value} // names have their case in NATS
		}
	} else {
		m.Data = e.AppendJSON(nil)
		m.Header["content-type"] = []string{events.Structured}
	}
	m.Header[jetstream.MsgIDHeader] = []string{e.Key()}
	return m
}

// subject returns the subject for events of a type. An underscore replaces each character that a subject may not have.
func (s *Sink) subject(typ string) string {
	tokens := strings.Split(typ, ".")
	for i, token := range tokens {
		token = strings.Map(func(r rune) rune {
			if r <= ' ' || r == '*' || r == '>' || r == 0x7f {
				return '_'
			}
			return r
		}, token)
		if token == "" {
			token = "_"
		}
		tokens[i] = token
	}
	return strings.ReplaceAll(s.opt.Subject, "{type}", strings.Join(tokens, "."))
}

// explained returns an error of publishing an event.
func (s *Sink) explained(e *events.Event, err error) error {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrMaxPayload), errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamMessageExceedsMaximum:
		return &events.Refusal{Err: fmt.Errorf("%w; fix: raise max_payload of NATS, or max_msg_size of the stream", err), Final: true}
	case errors.Is(err, nats.ErrBadSubject):
		return &events.Refusal{Err: err, Final: true}
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("no stream takes the subject %s, or JetStream is off; fix: create a stream with that subject, such as by `nats stream add`", s.subject(e.Type))
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("the stream did not acknowledge in time")
	}
	return err
}

// Close implements events.Sink.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.broken()
	if s.conn != nil {
		s.conn.Close()
	}
	return nil
}
