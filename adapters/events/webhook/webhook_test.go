package webhook

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/cloudevents/sdk-go/v2/event"
	"go.uber.org/goleak"

	"dragoman/adapters/events"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func event(id string) *events.Event {
	return &events.Event{ID: id, Source: "urn:x", SpecVersion: events.SpecVersion, Type: "dev.dragoman.test", Subject: "ü", Time: time.Unix(1_800_000_000, 0).UTC(), Data: []byte(`{"a":1}`)}
}

// receiver is a server that answers as the test says, and passes on the last request.
func receiver(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(answer)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv.URL
}

func sink(t *testing.T, opt Options) *Sink {
	t.Helper()
	opt.Timeout, opt.AtATime, opt.Agent = testkit.Patient, 4, "dragoman/test"
	s, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Test vectors of the Standard Webhooks specification, as its reference libraries have them.
func TestSignature(t *testing.T) {
	key, err := Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	if got := Sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`)); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Error(got)
	}
	for _, text := range []string{"", "short", "whsec_MfKQ", "whsec_not base64 but long enough for a key"} {
		if _, err := Secret(text); err == nil || strings.Contains(err.Error(), "not base64") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if key, err := Secret(strings.Repeat("k", 24)); err != nil || len(key) != 24 {
		t.Error(err)
	}
}

// Each mode sends what the HTTP binding says, signed over the bytes that are sent.
func TestModes(t *testing.T) {
	secret := []byte(strings.Repeat("s", 32))
	for _, mode := range []string{Structured, Binary, Batched} {
		t.Run(mode, func(t *testing.T) {
			var head http.Header
			var body []byte
			url := receiver(t, func(w http.ResponseWriter, r *http.Request) {
				head = r.Header
				body, _ = io.ReadAll(r.Body)
				if r.Method != http.MethodPost || r.URL.Path != "/in" {
					w.WriteHeader(http.StatusTeapot)
				}
			})
			s := sink(t, Options{URL: url + "/in", Mode: mode, Secret: secret, Headers: []httpclient.Header{{Name: "Authorization", Value: "Bearer b"}}})
			all := []*events.Event{event("1")}
			if mode == Batched {
				all = append(all, event("2"))
			}
			if err := s.Deliver(t.Context(), all); err != nil {
				t.Fatal(err)
			}
			stamp := head.Get("Webhook-Timestamp")
			seconds, err := strconv.ParseInt(stamp, 10, 64)
			if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > time.Minute {
				t.Errorf("time %q", stamp)
			}
			if got := head.Get("Webhook-Signature"); got != Sign(secret, head.Get("Webhook-Id"), stamp, body) || head.Get("Webhook-Id") != "msg_"+events.ShortKey(all) {
				t.Errorf("signature %q", got)
			}
			if head.Get("Authorization") != "Bearer b" || head.Get("User-Agent") != "dragoman/test" {
				t.Errorf("%v", head)
			}
			checkMode(t, mode, head, string(body))
		})
	}
}

func checkMode(t *testing.T, mode string, head http.Header, body string) {
	t.Helper()
	read := func(text string) {
		t.Helper()
		var e sdk.Event
		if err := e.UnmarshalJSON([]byte(text)); err != nil || e.Validate() != nil || string(e.Data()) != `{"a":1}` {
			t.Errorf("%v: %s", err, text)
		}
	}
	switch kind := head.Get("Content-Type"); mode {
	case Binary:
		if kind != "application/json" || body != `{"a":1}` || head.Get("Ce-Id") != "1" || head.Get("Ce-Subject") != "%C3%BC" || head.Get("Ce-Specversion") != "1.0" {
			t.Errorf("%v %s", head, body)
		}
	case Batched:
		if kind != "application/cloudevents-batch+json" || body[0] != '[' || strings.Count(body, `"specversion"`) != 2 {
			t.Errorf("%v %s", head, body)
		}
		first, second, _ := strings.Cut(strings.Trim(body, "[]"), "},{")
		read(first + "}")
		read("{" + second)
	default:
		if kind != "application/cloudevents+json" {
			t.Errorf("%v", head)
		}
		read(body)
	}
}

// An answer decides what becomes of an event.
func TestAnswers(t *testing.T) {
	soon := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	for _, x := range []struct {
		status int
		after  string
		fails  bool
		final  bool
		least  time.Duration
		most   time.Duration
	}{{200, "", false, false, 0, 0}, {204, "", false, false, 0, 0}, {202, "", false, false, 0, 0}, {301, "", true, true, 0, 0}, {307, "", true, true, 0, 0}, {400, "5", true, true, 0, 0},
		{401, "", true, true, 0, 0}, {404, "", true, true, 0, 0}, {410, "", true, true, 0, 0}, {415, "", true, true, 0, 0}, {408, "", true, false, 0, 0}, {425, "", true, false, 0, 0},
		{429, "7", true, false, 7 * time.Second, 7 * time.Second}, {500, "", true, false, 0, 0}, {503, soon, true, false, 50 * time.Minute, time.Hour}, {503, "soon", true, false, 0, 0}} {
		t.Run(fmt.Sprint(x.status, x.after), func(t *testing.T) {
			var requests atomic.Int32
			url := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
				requests.Add(1)
				w.Header().Set("Retry-After", x.after)
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(x.status)
			})
			err := sink(t, Options{URL: url, Mode: Structured}).Deliver(t.Context(), []*events.Event{event("1")})
			refusal := &events.Refusal{}
			if (err != nil) != x.fails || errors.As(err, &refusal) != x.fails || refusal.Final != x.final || refusal.After < x.least || refusal.After > x.most || requests.Load() != 1 {
				t.Errorf("%v, %+v, %d requests", err, refusal, requests.Load())
			}
		})
	}
}

// One connection serves one request after the other, also after failures with a body.
func TestConnectionsAreReused(t *testing.T) {
	var conns atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, strings.Repeat("x", 5000))
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	s := sink(t, Options{URL: srv.URL, Mode: Structured})
	for range 20 {
		if err := s.Deliver(t.Context(), []*events.Event{event("1")}); err == nil {
			t.Fatal("it was delivered")
		}
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
	_ = s.Close()
}

// A receiver that hangs, is away, or breaks off fails an attempt, which may be made again.
func TestBrokenReceivers(t *testing.T) {
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	ended := httptest.NewServer(nil)
	ended.Close()
	for name, x := range map[string]struct {
		url  string
		what string
	}{
		"hangs": {receiver(t, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		}), "did not answer in time"},
		"is away": {ended.URL, "connect to"},
		"resets": {receiver(t, func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}), "read response"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			err := sink(t, Options{URL: x.url, Mode: Structured}).Deliver(ctx, []*events.Event{event("1")})
			refusal := &events.Refusal{}
			if errors.As(err, &refusal); err == nil || refusal.Final || !strings.Contains(err.Error(), x.what) {
				t.Errorf("%v", err)
			}
		})
	}
}

// Secret decodes the Base64 of a key.
func TestSecretInBase64(t *testing.T) {
	key := strings.Repeat("\x00\xff", 16)
	if got, err := Secret(secretPrefix + base64.StdEncoding.EncodeToString([]byte(key))); err != nil || string(got) != key {
		t.Errorf("%q, %v", got, err)
	}
}
