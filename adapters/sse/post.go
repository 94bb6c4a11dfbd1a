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
	ackTime    = time.Second      // wait before the message counts as sent without it
	postTime   = 10 * time.Second // for writing a POST, and for pending POSTs when the link closes
	lateTime   = time.Minute      // for a late one
	maxDiscard = 64 << 10         // bytes of its body that are read
)

// late holds the POSTs whose acknowledgements are late. They end with stop.
type late struct {
	mu    sync.Mutex
	stop  chan struct{}
	group sync.WaitGroup
}

// begin runs f in a goroutine, unless end was called. f must return when its channel is closed.
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

// end stops all of them and waits. It must be called once.
func (a *late) end() {
	a.mu.Lock()
	if a.stop == nil {
		a.stop = make(chan struct{})
	}
	close(a.stop)
	a.mu.Unlock()
	a.group.Wait()
}

// write posts one message. The POST's answer only acknowledges the message; the reply comes on the stream. Some servers
// send the acknowledgement only after the work is done, or never. So after ackTime the message counts as sent, and the
// limit of the call decides how long it may take.
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
		_ = acknowledged(ans, time.Now().Add(lateTime)) // the result is not needed any more
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

// acknowledged waits for the server's answer to a POST.
func acknowledged(ans httpclient.Response, until time.Time) error {
	status, _, err := ans.Head(until)
	if err != nil {
		return err
	}
	_, _ = ans.Body(nil, maxDiscard, until) // read, so that the connection can be reused
	switch {
	case status == fasthttp.StatusNotFound:
		return proxy.Errf(proxy.SessionLost, "the upstream server has forgotten the session")
	case status >= 300:
		return transport.StatusFault(&transport.StatusError{Status: status})
	}
	return nil
}
