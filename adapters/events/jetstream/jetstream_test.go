package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	sdk "github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/goleak"

	"dragoman/adapters/events"
	"dragoman/adapters/events/natstest"
	"dragoman/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func event(id string) *events.Event {
	return &events.Event{ID: id, Source: "urn:x", SpecVersion: events.SpecVersion, Type: "dev.dragoman.test", Subject: "ü", Time: time.Unix(1_800_000_000, 0).UTC(), Data: []byte(`{"a":1}`)}
}

func sink(t *testing.T, opt Options) *Sink {
	t.Helper()
	if opt.Timeout == 0 {
		opt.Timeout = testkit.Patient
	}
	if opt.Subject == "" {
		opt.Subject = "events.{type}"
	}
	s := New(opt)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func deliver(t *testing.T, s *Sink, all ...*events.Event) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patient)
	defer cancel()
	return s.Deliver(ctx, all)
}

// Both modes of the NATS binding arrive, once each.
func TestModes(t *testing.T) {
	srv := natstest.Start(t, nil)
	stream := srv.Stream(t, "events.>")
	for n, binary := range []bool{false, true} {
		s := sink(t, Options{URLs: []string{srv.URL()}, Binary: binary})
		e := event(fmt.Sprintf("id %d", n))
		for range 2 { // as if the acknowledgement had been lost
			if err := deliver(t, s, e); err != nil {
				t.Fatal(err)
			}
		}
		m, err := stream.GetMsg(t.Context(), uint64(n+1))
		if err != nil {
			t.Fatal(err)
		}
		if m.Subject != "events.dev.dragoman.test" || m.Header.Get("Nats-Msg-Id") != fmt.Sprintf("urn:x id%%20%d", n) {
			t.Errorf("%s %v", m.Subject, m.Header)
		}
		if binary {
			if string(m.Data) != `{"a":1}` || m.Header.Get("content-type") != "application/json" || m.Header.Get("ce-subject") != "%C3%BC" || m.Header.Get("ce-specversion") != "1.0" {
				t.Errorf("%v %s", m.Header, m.Data)
			}
			continue
		}
		var got sdk.Event
		if err := got.UnmarshalJSON(m.Data); err != nil || got.ID() != e.ID || m.Header.Get("content-type") != "application/cloudevents+json" {
			t.Errorf("%v: %v %s", err, m.Header, m.Data)
		}
	}
	if info, err := stream.Info(t.Context()); err != nil || info.State.Msgs != 2 {
		t.Errorf("%+v, %v", info, err)
	}
}

// A server that restarts is found again, with its stream.
func TestRestart(t *testing.T) {
	srv := natstest.Start(t, nil)
	stream := srv.Stream(t, "events.>")
	s := sink(t, Options{URLs: []string{srv.URL()}, Timeout: time.Second})
	if err := deliver(t, s, event("1")); err != nil {
		t.Fatal(err)
	}
	srv.Down()
	if err := deliver(t, s, event("2")); err == nil {
		t.Error("it is delivered to nobody")
	}
	srv.Up(t)
	testkit.Eventually(t, "it is delivered after the restart", func() bool { return deliver(t, s, event("2")) == nil })
	testkit.Eventually(t, "both are there", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		info, err := stream.Info(ctx)
		return err == nil && info.State.Msgs == 2
	})
}

// What cannot be published says why, and whether it is of use to try again.
func TestFailures(t *testing.T) {
	srv := natstest.Start(t, func(o *server.Options) { o.Authorization = "token" })
	other := natstest.Start(t, nil)
	other.Stream(t, "events.>")
	large := event("1")
	large.Data = []byte(`"` + strings.Repeat("x", 100<<10) + `"`)
	for name, x := range map[string]struct {
		opt   Options
		event *events.Event
		final bool
		what  string
	}{
		"no token":       {Options{URLs: []string{srv.URL()}}, event("1"), false, "Authorization Violation"},
		"no stream":      {Options{URLs: []string{srv.URL()}, Authorization: "token"}, event("1"), false, "no stream takes the subject events.dev.dragoman.test"},
		"too large":      {Options{URLs: []string{other.URL()}}, large, true, "max_msg_size"},
		"is not there":   {Options{URLs: []string{"nats://127.0.0.1:1"}}, event("1"), false, "NATS cannot be reached"},
		"credentials":    {Options{URLs: []string{srv.URL()}, Credentials: "/none"}, event("1"), false, "/none"},
		"wrong password": {Options{URLs: []string{srv.URL()}, Authorization: "user:secret-password"}, event("1"), false, "Authorization Violation"},
	} {
		t.Run(name, func(t *testing.T) {
			err := deliver(t, sink(t, x.opt), x.event)
			refusal := &events.Refusal{}
			errors.As(err, &refusal)
			if err == nil || refusal.Final != x.final || !strings.Contains(err.Error(), x.what) || strings.Contains(err.Error(), "secret-password") {
				t.Errorf("%v", err)
			}
		})
	}
	s := sink(t, Options{URLs: []string{other.URL()}})
	_ = s.Close()
	if err := deliver(t, s, event("1")); !errors.Is(err, errClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// A type gives a subject, whatever is in it.
func TestSubject(t *testing.T) {
	s := New(Options{Subject: "a.{type}.b"})
	for typ, want := range map[string]string{"dev.x": "a.dev.x.b", "": "a._.b", "a..b": "a.a._.b.b", "a b.*.>": "a.a_b._._.b", ".": "a._._.b"} {
		if got := s.subject(typ); got != want {
			t.Errorf("%q: %s, not %s", typ, got, want)
		}
	}
}
