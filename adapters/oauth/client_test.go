package oauth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"dragoman/proxy"
)

func newTestClient(t *testing.T, s *server, c *clock) *Client {
	t.Helper()
	cl := NewClient(ClientOptions{Upstream: "up", TokenURL: s.url + "/token", ID: "i:d", Secret: "s e", Now: c.Now})
	t.Cleanup(cl.Close)
	return cl
}

// One token is requested for all concurrent callers, again before its end, and once after it was refused.
func TestTokensAreFetchedOnce(t *testing.T) {
	s, c := newServer(t), newClock()
	s.hold, s.arrived = make(chan struct{}), make(chan struct{}, 100)
	s.respond(200, []byte(`{"access_token":"one","token_type":"bearer","expires_in":600}`))
	cl := newTestClient(t, s, c)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if v, err := cl.Authorization(t.Context()); err != nil || v != "Bearer one" {
				t.Errorf("%q %v", v, err)
			}
		})
	}
	<-s.arrived
	left, leave := context.WithCancelCause(t.Context())
	leave(proxy.ErrCancelled)
	if _, err := cl.Authorization(left); !errors.Is(err, proxy.ErrCancelled) {
		t.Errorf("a caller that has left still waits: %v", err)
	}
	close(s.hold)
	group.Wait()
	s.respond(200, []byte(`{"access_token":"two","expires_in":600}`))
	ask := func(want string) {
		t.Helper()
		if v, err := cl.Authorization(t.Context()); err != nil || v != want {
			t.Errorf("%q %v; want %q", v, err, want)
		}
	}
	c.pass(9 * time.Minute)
	ask("Bearer one")
	c.pass(31 * time.Second)
	ask("Bearer two")
	cl.Refused("Bearer one") // late: it is not used any more
	ask("Bearer two")
	s.respond(200, []byte(`{"access_token":"three"}`))
	cl.Refused("Bearer two")
	cl.Refused("Bearer two")
	ask("Bearer three")
	if s.count("/token") != 3 || cl.Fetched() != 3 || cl.Dropped() != 1 {
		t.Errorf("%d requests, %d tokens, %d dropped", s.count("/token"), cl.Fetched(), cl.Dropped())
	}
}

// A server that refuses every token does not cause a request for each call.
func TestRefusedTokens(t *testing.T) {
	s, c := newServer(t), newClock()
	cl := newTestClient(t, s, c)
	for i := range 50 {
		s.respond(200, fmt.Appendf(nil, `{"access_token":"t%d","expires_in":"36000"}`, i))
		v, err := cl.Authorization(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		cl.Refused(v)
		c.pass(time.Millisecond)
	}
	if n := s.count("/token"); n != 1+refusalsAtOnce || cl.Dropped() != refusalsAtOnce {
		t.Errorf("%d requests, %d dropped", n, cl.Dropped())
	}
	for range 10 {
		c.pass(refusalsPause)
		v, err := cl.Authorization(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		cl.Refused(v)
	}
	if n := s.count("/token"); n < 1+refusalsAtOnce+9 || n > 1+refusalsAtOnce+10 {
		t.Errorf("%d requests", n)
	}
	cl = newTestClient(t, s, c)
	for range 5 { // a lifetime may be a string
		if _, err := cl.Authorization(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.pass(time.Hour)
	}
	if cl.Fetched() != 1 {
		t.Errorf("%d tokens within the life of one", cl.Fetched())
	}
}

// Every answer without a token is an error, without the content of the answer, and no further request is sent at once.
func TestAnswersWithoutToken(t *testing.T) {
	f := func(status int, body, want string) {
		t.Helper()
		s, c := newServer(t), newClock()
		s.respond(status, []byte(body))
		cl := newTestClient(t, s, c)
		for range 10 {
			v, err := cl.Authorization(t.Context())
			var e *proxy.Error
			if v != "" || !errors.As(err, &e) || e.Name != proxy.NoToken.Name || !strings.Contains(e.Message, want) || strings.Contains(e.Message, "SECRET") {
				t.Fatalf("%d %s: %q %v", status, body, v, err)
			}
		}
		if n := s.count("/token"); n != 1 {
			t.Errorf("%d %s: %d requests within no time", status, body, n)
		}
		s.respond(200, []byte(`{"access_token":"t"}`))
		c.pass(2 * time.Second)
		if v, err := cl.Authorization(t.Context()); err != nil || v != "Bearer t" {
			t.Errorf("afterwards: %q %v", v, err)
		}
	}
	f(401, `{"error":"invalid_client","error_description":"SECRET"}`, "401 (invalid_client)")
	f(400, `{"error":"SECRET"}`, "400 (no error code)")
	f(302, ``, "302")
	f(200, `SECRET`, "without one")
	f(200, `{"access_token":""}`, "without one")
	f(200, `{"access_token":"a\r\nX: SECRET"}`, "without one")
	f(200, `{"access_token":"a b"}`, "without one")
	f(200, `{"access_token":"SECRET","token_type":"mac"}`, "other tokens")
	f(200, `{"access_token":"`+strings.Repeat("a", maxAnswer)+`"}`, "cannot be asked")
}
