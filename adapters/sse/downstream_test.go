package sse

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"

	"dragoman/proxy"
	"dragoman/proxy/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A cancellation that is posted right after its request finds it, whether it has begun or not.
func TestCancelBehindRequest(t *testing.T) {
	const patient, rounds = 10 * time.Second, 300
	store, err := session.NewStore(session.Options{IdleTTL: time.Hour, Max: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	sess, perr := store.Create("sse", "", proxy.Caller{})
	if perr != nil {
		t.Fatal(perr)
	}
	cancelled := make(chan error, rounds)
	d := &Downstream{Store: store, Cap: time.Minute, Handle: func(ex *proxy.Exchange) (proxy.Replies, error) {
		select {
		case <-ex.Done():
		case <-time.After(patient):
		}
		cancelled <- ex.Err()
		return nil, proxy.ErrCancelled
	}}
	post := func(body string) {
		var ctx fasthttp.RequestCtx
		ctx.Request.Header.SetMethod(fasthttp.MethodPost)
		ctx.Request.SetRequestURI("/messages?sessionId=" + sess.ID)
		ctx.Request.SetBodyString(body)
		if d.Post(&ctx); ctx.Response.StatusCode() != fasthttp.StatusAccepted {
			t.Fatalf("%s: %d %s", body, ctx.Response.StatusCode(), ctx.Response.Body())
		}
	}
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
	store, err := session.NewStore(session.Options{IdleTTL: time.Hour, Max: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	sess, perr := store.Create("sse", "", proxy.Caller{})
	if perr != nil {
		t.Fatal(perr)
	}
	answered, seen := make(chan struct{}), make(chan string)
	d := &Downstream{Store: store, Cap: time.Minute, Handle: func(ex *proxy.Exchange) (proxy.Replies, error) {
		<-answered
		seen <- string(ex.Msg.Raw) + ex.ID()
		return nil, proxy.ErrCancelled
	}}
	for _, size := range []int{10, keptBody + 1, ownBody, 1 << 20} {
		text := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s"}}`, size, strings.Repeat("x", size))
		body := []byte(text)
		var ctx fasthttp.RequestCtx
		ctx.Request.Header.SetMethod(fasthttp.MethodPost)
		ctx.Request.SetRequestURI("/messages?sessionId=" + sess.ID)
		ctx.Request.SetBodyRaw(body)
		d.Post(&ctx)
		clear(body)
		answered <- struct{}{}
		if got := <-seen; !strings.HasPrefix(got, text) || len(got) == len(text) {
			t.Errorf("of %d bytes %.100s", size, got)
		}
	}
}
