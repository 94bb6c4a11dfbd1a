package httpcall

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/transport"
)

// Bounds on the acknowledgements of one link.
const (
	ackTime    = 10 * time.Second // for one whose message has no call under way
	maxAcks    = 8                // of such messages that are waited for; then the oldest is given up
	maxDiscard = 64 << 10         // bytes of its body that are read
)

// NoticePatience is how long a notification waits for its acknowledgement, at a server that was not late before.
const NoticePatience = 250 * time.Millisecond

// Acks reads the acknowledgements of one link in the background: HTTP answers that only say that a message has been received. Some
// servers acknowledge a request only when its work is done, and some do so never, so nothing waits for them. The zero value is ready.
type Acks struct {
	group sync.WaitGroup

	mu     sync.Mutex
	closed bool
	waits  []*ack // oldest first
}

// ack is one acknowledgement that is being waited for.
type ack struct {
	ans  httpclient.Response
	open func() bool
}

// Await takes ans over and calls result once, in the background. came reports that the server has answered, or has broken the connection:
// err is then nil if it has taken the message, a *transport.StatusError if it has refused it, otherwise an error of Fault. open reports
// whether the call of the message is under way; nil: it has none. While it is, the acknowledgement may take as long as it likes.
func (a *Acks) Await(ans httpclient.Response, open func() bool, result func(came bool, err error)) {
	w := &ack{ans: ans, open: open}
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		ans.Abort()
		ans.Close()
		result(false, nil)
		return
	}
	defer a.mu.Unlock()
	a.makeRoom()
	a.waits = append(a.waits, w)
	a.group.Go(func() { // ends with the acknowledgement, after ackTime, or with Close
		defer ans.Close()
		result(w.verdict())
		_, _ = ans.Body(nil, maxDiscard, time.Now().Add(ackTime)) // read, so that the connection can be reused
		a.mu.Lock()
		defer a.mu.Unlock()
		a.waits = slices.DeleteFunc(a.waits, func(o *ack) bool { return o == w })
	})
}

// makeRoom gives up the oldest acknowledgement whose message has no call under way, if there are maxAcks of these. The caller holds a.mu.
func (a *Acks) makeRoom() {
	if len(a.waits) < maxAcks {
		return
	}
	oldest, n := 0, 0
	for i, w := range slices.Backward(a.waits) {
		if !w.underWay() {
			oldest = i
			n++
		}
	}
	if n >= maxAcks {
		a.waits[oldest].ans.Abort()
		a.waits = slices.Delete(a.waits, oldest, oldest+1)
	}
}

// Notified is Await for a notification. It waits for the server's verdict for a moment, so that no later message overtakes this one, at
// a server that acknowledges notifications at once.
func (a *Acks) Notified(ctx context.Context, ans httpclient.Response, patience *transport.Patience) error {
	began, verdict := time.Now(), make(chan error, 1)
	a.Await(ans, nil, func(came bool, err error) {
		if came {
			patience.Note(time.Since(began), NoticePatience)
		}
		verdict <- err
	})
	timer := time.NewTimer(patience.For(NoticePatience))
	defer timer.Stop()
	select {
	case err := <-verdict:
		return err
	case <-timer.C:
		patience.Note(NoticePatience+1, NoticePatience) // later, if at all
	case <-ctx.Done():
	}
	return nil
}

func (w *ack) underWay() bool { return w.open != nil && w.open() }

// verdict waits for the head of the acknowledgement.
func (w *ack) verdict() (came bool, err error) {
	for {
		status, h, err := w.ans.Head(time.Now().Add(ackTime))
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && w.underWay():
			continue
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, httpclient.ErrAborted):
			return false, nil
		case err != nil:
			return true, Fault(err)
		case status >= 300:
			return true, &transport.StatusError{Status: status, RetryAfter: RetryAfter(h)}
		}
		return true, nil
	}
}

// Close gives up all acknowledgements, those of later messages included, and waits for the goroutines.
func (a *Acks) Close() {
	a.mu.Lock()
	a.closed = true
	for _, w := range a.waits {
		w.ans.Abort()
	}
	a.mu.Unlock()
	a.group.Wait()
}
