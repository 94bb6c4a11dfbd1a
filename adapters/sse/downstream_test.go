package sse

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/internal/testkit"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// fasthttp's clock for Date headers: one for the process, from the first answer on, and nobody can end it
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

// posts serves a Downstream with one session, and returns a function that posts a message to it.
func posts(t *testing.T, handle proxy.Handler) (post func(body string)) {
	t.Helper()
	store, err := session.NewStore(session.Options{IdleTTL: time.Hour, Max: 10})
	if err != nil {
		t.Fatal(err)
	}
	sess, perr := store.Create("sse", "", proxy.Caller{})
	srv, err := httpserver.NewServer(httpserver.Options{})
	if perr != nil || err != nil {
		t.Fatal(perr, err)
	}
	d := &Downstream{Store: store, Cap: time.Minute, Handle: handle}
	srv.Handle(http.MethodPost, "/messages", d.Post)
	url := "http://" + testkit.Serve(t, srv) + "/messages?sessionId=" + sess.ID
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		store.Close()
	})
	client := &http.Client{Transport: transport}
	return func(body string) {
		t.Helper()
		res, err := client.Post(url, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if _ = res.Body.Close(); res.StatusCode != http.StatusAccepted {
			t.Fatalf("%.100s: %d", body, res.StatusCode)
		}
	}
}

// A cancellation that is posted right after its request finds it, whether it has begun or not.
func TestCancelBehindRequest(t *testing.T) {
	const patient, rounds = 10 * time.Second, 300
	cancelled := make(chan error, rounds)
	post := posts(t, func(ex *proxy.Exchange) (proxy.Replies, error) {
		select {
		case <-ex.Done():
		case <-time.After(patient):
		}
		cancelled <- ex.Err()
		return nil, proxy.ErrCancelled
	})
	for id := range rounds {
		post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"a"}}`, id))
		post(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
	}
	for range rounds {
		if err := <-cancelled; err != proxy.ErrCancelled {
			t.Fatalf("a request was not cancelled: %v", err)
		}
	}
}

// A request outlives its POST, whose memory is reused once the POST is answered.
func TestRequestOutlivesItsPost(t *testing.T) {
	answered, seen := make(chan struct{}), make(chan string)
	post := posts(t, func(ex *proxy.Exchange) (proxy.Replies, error) {
		if ex.Msg.Kind != wire.Request {
			return nil, nil
		}
		<-answered
		seen <- string(ex.Msg.Raw) + ex.ID()
		return nil, proxy.ErrCancelled
	})
	for _, size := range []int{10, keptBody + 1, ownBody, 1 << 20} {
		text := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s"}}`, size, strings.Repeat("x", size))
		post(text)
		post(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/y","params":{"name":"%s"}}`, strings.Repeat("y", size))) // in the same memory
		answered <- struct{}{}
		if got := <-seen; !strings.HasPrefix(got, text) || len(got) == len(text) {
			t.Errorf("of %d bytes %.100s", size, got)
		}
	}
}
