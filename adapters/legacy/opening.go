package legacy

import (
	"bytes"
	"context"
	"sync"
	"time"

	"dragoman/adapters/transport"
	"dragoman/proxy/wire"
)

// How long calls wait for the answer to the request for a GET stream: four times as long as the server takes for a notification, within
// these bounds.
const (
	streamLeast = 100 * time.Millisecond
	streamMost  = 3 * time.Second
)

// opening is the first GET stream of a session until the server answers the request for it. Some servers send questions there and drop
// what they send while no stream is open: calls wait for the answer for a moment. Others answer with their first event only, or never.
type opening struct {
	patience *transport.Patience
	began    time.Time
	most     time.Duration // calls wait until then, unless the server was late before
	until    time.Time
	once     sync.Once
	answered chan struct{} // closed by the server's answer, or by the end of the reader
}

// listen starts the reader of the GET stream. roundTrip is the time that the server took for notifications/initialized.
func (l *link) listen(roundTrip time.Duration) {
	first := &opening{patience: &l.d.streams, began: time.Now(), most: min(max(4*roundTrip, streamLeast), streamMost), answered: make(chan struct{})}
	first.until = first.began.Add(first.patience.For(first.most))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.opening != nil {
		return
	}
	l.opening = first
	l.group.Go(func() { // ends with the link, or when the server refuses the stream
		defer first.end()
		l.stream(first)
	})
}

// answer records the server's answer.
func (o *opening) answer() {
	o.once.Do(func() {
		o.patience.Note(time.Since(o.began), o.most)
		close(o.answered)
	})
}

// end records that no answer will come.
func (o *opening) end() { o.once.Do(func() { close(o.answered) }) }

// pending reports whether a call may have to wait. A nil opening is none.
func (o *opening) pending() bool {
	if o == nil {
		return false
	}
	select {
	case <-o.answered:
		return false
	default:
		return time.Now().Before(o.until)
	}
}

// wait waits for the answer, within its time.
func (o *opening) wait(ctx context.Context) {
	timer := time.NewTimer(time.Until(o.until))
	defer timer.Stop()
	select {
	case <-o.answered:
	case <-timer.C:
		o.patience.Note(time.Since(o.began), o.most)
	case <-ctx.Done():
	}
}

// mayPush reports whether the server may send something about a request on the GET stream.
func mayPush(m *wire.Message) bool {
	return !m.Is("ping") && !bytes.HasSuffix(m.Text(m.Method), []byte("/list"))
}

// Pushes implements transport.Pusher. It waits as a call does.
func (l *link) Pushes() bool {
	l.mu.Lock()
	first := l.opening
	l.mu.Unlock()
	if first.pending() {
		first.wait(l.ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.silent
}

// Answered implements transport.Pusher.
func (l *link) Answered() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opening == nil {
		return nil
	}
	return l.opening.answered
}
