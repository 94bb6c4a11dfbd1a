// Package natstest runs a real NATS server with JetStream in a test's process.
package natstest

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"dragoman/internal/testkit"
)

// Server is a NATS server whose stream is kept in a directory over restarts.
type Server struct {
	opt server.Options
	srv *server.Server
}

// Start starts a server on a free port of the loopback; it ends with the test. change, if not nil, changes its options.
func Start(t testing.TB, change func(*server.Options)) *Server {
	t.Helper()
	s := &Server{opt: server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true}}
	if change != nil {
		change(&s.opt)
	}
	s.Up(t)
	t.Cleanup(s.Down)
	return s
}

// Up starts the server again, at the same port.
func (s *Server) Up(t testing.TB) {
	t.Helper()
	opt := s.opt // the server changes it
	srv, err := server.NewServer(&opt)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	if !srv.ReadyForConnections(testkit.Patient) {
		t.Fatal("NATS does not start")
	}
	s.srv, s.opt.Port = srv, opt.Port
}

// Down ends the server.
func (s *Server) Down() {
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
}

// URL returns the address of the server.
func (s *Server) URL() string { return s.srv.ClientURL() }

// Stream makes a stream for subjects, unless there is one, and returns it with its connection, which ends with the test.
func (s *Server) Stream(t testing.TB, subjects ...string) jetstream.Stream {
	t.Helper()
	conn, err := nats.Connect(s.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "EVENTS", Subjects: subjects, MaxMsgSize: 64 << 10, Duplicates: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// Read passes all messages of a stream on, in their order.
func Read(t testing.TB, s jetstream.Stream, take func(data []byte)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var info *jetstream.StreamInfo
	testkit.Eventually(t, "the stream is there", func() (is bool) {
		var err error
		info, err = s.Info(ctx)
		return err == nil
	})
	if info.State.Msgs == 0 {
		return
	}
	c, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	messages, err := c.Messages()
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Stop()
	for range info.State.Msgs {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		take(m.Data())
	}
}
