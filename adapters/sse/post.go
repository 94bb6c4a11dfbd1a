package sse

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpcall"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/transport"
	"dragoman/proxy"
)

// Bounds on the acknowledgement of a POST.
const (
	ackTime    = time.Second      // so long it is waited for before the message counts as sent
	postTime   = 10 * time.Second // for the writing of a POST, and where its link ends
	lateTime   = time.Minute      // for one that is late
	maxDiscard = 64 << 10         // of its body
)

// late are the POSTs whose acknowledgements are late; they end with stop.
type late struct {
	mu    sync.Mutex
	stop  chan struct{}
	group sync.WaitGroup
}

// begin runs f unless end was called; f ends at the latest when the channel that it is given is closed.
func (a *late) begin(f func(stop <-chan struct{})) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stop == nil {
		a.stop = make(chan struct{})
	}
	select {
	case <-a.stop:
		return false
	default:
	}
	a.group.Go(func() { f(a.stop) })
	return true
}

// end ends all of them, once.
func (a *late) end() {
	a.mu.Lock()
	if a.stop == nil {
		a.stop = make(chan struct{})
	}
	close(a.stop)
	a.mu.Unlock()
	a.group.Wait()
}

// write posts one message. Its answer says only whether it was taken; what comes of it comes on the stream. So who takes his time
// to say that, does the work first, or is out of reach, is not waited for: the message counts as sent, and how long a call may take
// is for its own limits to say.
func (l *link) write(ctx context.Context, msg []byte) error {
	posting, cancel := context.WithTimeout(ctx, postTime)
	defer cancel()
	req := httpcall.NewRequest(fasthttp.MethodPost, l.post, msg)
	ans, err := l.d.host.Send(l.carry(posting), req)
	req.Release()
	if err != nil {
		return httpcall.Fault(err)
	}
	stop := context.AfterFunc(ctx, ans.Abort)
	err = acknowledged(ans, time.Now().Add(ackTime))
	if errors.Is(err, os.ErrDeadlineExceeded) && l.late.begin(func(end <-chan struct{}) { // ends with the link
		defer ans.Close()
		defer stop()
		done := make(chan struct{})
		defer close(done)
		go func() {
			select {
			case <-end:
				ans.Abort()
			case <-done:
			}
		}()
		_ = acknowledged(ans, time.Now().Add(lateTime)) // nobody waits for it any more
	}) {
		return nil
	}
	stop()
	ans.Close()
	if err != nil {
		return httpcall.Fault(err)
	}
	return nil
}

// acknowledged waits for what the server says to a POST.
func acknowledged(ans httpclient.Response, until time.Time) error {
	status, _, err := ans.Head(until)
	if err != nil {
		return err
	}
	_, _ = ans.Body(nil, maxDiscard, until) // read so that the connection may be used again
	switch {
	case status == fasthttp.StatusNotFound:
		return proxy.Errf(proxy.SessionLost, "the upstream server has forgotten the session")
	case status >= 300:
		return transport.StatusFault(&transport.StatusError{Status: status})
	}
	return nil
}
