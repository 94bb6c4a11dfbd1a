package channel

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"dragoman/proxy"
)

// lingers is how long a call that has had its last message may take to end before it is cancelled. A server that sees its call cancelled
// counts it as failed.
const lingers = time.Second

// Stream is one call at a server. Next belongs to one goroutine, which Close ends the wait of; Send to one; Abort is for any.
type Stream struct {
	c             *Channel
	ex            *proxy.Exchange
	grpc          grpc.ClientStream
	cancel        context.CancelFunc
	authorization string

	arrived chan arrival  // from pump
	closed  chan struct{} // closed by Close
	err     error         // that Next has returned
	over    atomic.Bool   // the last message has been returned
	once    sync.Once
}

// arrival holds what a server has sent: a message, or the end of the call.
type arrival struct {
	m    proto.Message
	err  error
	last bool
}

// Method describes a method of a server.
type Method struct {
	// Name is the full name: /package.Service/Method.
	Name string
	// ServerStreams and ClientStreams say which side sends any number of messages.
	ServerStreams, ClientStreams bool
	// Message returns an empty message for the next one of the server.
	Message func() proto.Message
	// Last reports whether a message is the last one of the call; nil: the first one is. After it nothing is sent to the server.
	Last func(m proto.Message) bool
}

// Open begins a call for an exchange, with its metadata, and its deadline unless both sides stream, and sends the first message; more says that
// others follow. When the exchange is cancelled, so is the call. The error is a *proxy.Error.
func (c *Channel) Open(ex *proxy.Exchange, of *Method, first proto.Message, more bool) (*Stream, error) {
	md, authorization, err := c.metadata(ex)
	if err != nil {
		return nil, err
	}
	ctx, cancel := outgoing(md, deadline(ex, of))
	s := &Stream{c: c, ex: ex, cancel: cancel, authorization: authorization, arrived: make(chan arrival), closed: make(chan struct{})}
	ex.Attach(s)
	if s.grpc, err = c.connected(ctx, cancel, of); err == nil {
		err = s.grpc.SendMsg(first)
		if err == nil && !more {
			err = s.grpc.CloseSend()
		}
		if errors.Is(err, io.EOF) { // the call has ended, and its status follows
			err = nil
		}
		if err == nil {
			go s.pump(of) // ends with the call, which Close ends
			return s, nil
		}
		err = s.fault(err, true)
	} else {
		err = s.fault(err, false)
	}
	ex.Detach(s)
	cancel()
	return nil, err
}

// afterConnect is how long after ConnectTimeout a call without a connection fails. gRPC knows better why an attempt to connect has failed, and says it
// before.
const afterConnect = 500 * time.Millisecond

// connected begins a call as soon as there is a connection for it. gRPC fails a call without one when connecting fails, but lets it wait for as long as
// connections are made and break at once.
func (c *Channel) connected(ctx context.Context, cancel context.CancelFunc, of *Method) (grpc.ClientStream, error) {
	late := time.AfterFunc(c.opt.ConnectTimeout+afterConnect, cancel)
	s, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: of.ServerStreams, ClientStreams: of.ClientStreams}, of.Name)
	if !late.Stop() && (err == nil || status.Code(err) == codes.Canceled) {
		return nil, status.Errorf(codes.Unavailable, "no connection has lasted for connect_timeout (%s); fix: see the server's log, and that the url is one of a gRPC server", c.opt.ConnectTimeout)
	}
	return s, err
}

// deadline returns when a call of an exchange has to be answered; zero: it may last, or go on in another exchange.
func deadline(ex *proxy.Exchange, of *Method) time.Time {
	const lasting = 365 * 24 * time.Hour
	if limit := ex.Limit(); limit > 0 && limit < lasting && !of.ClientStreams {
		return ex.Began().Add(limit)
	}
	return time.Time{}
}

// pump reads the messages of the call until its end, one ahead of Next: a client that is slow slows down the server.
func (s *Stream) pump(of *Method) {
	defer s.cancel()
	for {
		m := of.Message()
		err := s.grpc.RecvMsg(m)
		last := err != nil || of.Last == nil || of.Last(m)
		select {
		case s.arrived <- arrival{m, err, last}:
		case <-s.closed:
			return
		}
		switch {
		case err != nil, last && !of.ServerStreams:
			return
		case last: // the server ends the call by itself
			_ = s.grpc.CloseSend()
			late := time.AfterFunc(lingers, s.cancel)
			_ = s.grpc.RecvMsg(of.Message())
			late.Stop()
			return
		}
	}
}

// Next waits for the next message, until the given time at most; zero means without limit. At that time it returns proxy.ErrNotYet and may be
// called again. At the end of the call it returns io.EOF, and after any other end a *proxy.Error.
func (s *Stream) Next(until time.Time) (proto.Message, error) {
	if s.over.Load() {
		return nil, io.EOF
	}
	if s.err != nil {
		return nil, s.err
	}
	var late <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case a := <-s.arrived:
		if a.err == nil {
			s.over.Store(a.last)
			return a.m, nil
		}
		if s.err = io.EOF; !errors.Is(a.err, io.EOF) {
			s.err = s.fault(a.err, true)
		}
		return nil, s.err
	case <-late:
		return nil, proxy.ErrNotYet
	case <-s.closed:
		return nil, proxy.ErrCancelled
	}
}

// Send sends a further message. It waits while the server takes none. After the end of the call it reports no error: Next has it.
func (s *Stream) Send(m proto.Message) error {
	if err := s.grpc.SendMsg(m); err != nil && !errors.Is(err, io.EOF) {
		return s.fault(err, true)
	}
	return nil
}

// Follow makes the call one of another exchange: the one of the client that has come back to it.
func (s *Stream) Follow(ex *proxy.Exchange) {
	s.ex = ex
	ex.Attach(s)
}

// Release lets go of the exchange: the call outlives it. Next must not be called before Follow.
func (s *Stream) Release() {
	s.ex.Detach(s)
	s.ex = nil
}

// Abort implements proxy.Aborter: it cancels the call.
func (s *Stream) Abort() { s.cancel() }

// Close ends the call. It cancels it unless the last message has been received.
func (s *Stream) Close() {
	if s.ex != nil {
		s.ex.Detach(s)
	}
	s.once.Do(func() {
		close(s.closed)
		if !s.over.Load() {
			s.cancel()
		}
	})
}

// fault turns an error of gRPC into one for the client; sent says that the server may have the call.
func (s *Stream) fault(err error, sent bool) error {
	st := status.Convert(err)
	if cause := s.ex.Err(); cause != nil && (st.Code() == codes.Canceled || st.Code() == codes.DeadlineExceeded) {
		return cause
	}
	if st.Code() == codes.DeadlineExceeded && s.ex.Late() { // the call had the deadline of the exchange
		return proxy.Overdue(s.ex.Limit())
	}
	if st.Code() == codes.Unauthenticated && s.authorization != "" {
		s.c.opt.Credentials.Refused(s.authorization)
	}
	return Fault(st, sent)
}
