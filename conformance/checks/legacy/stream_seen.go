package legacy

import (
	"sync"
	"time"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// seen counts the messages of a stream that is read on the side.
type seen struct {
	mu   sync.Mutex
	n    int
	work sync.WaitGroup
}

// follow reads a stream until it is closed.
func follow(res *peer.Response) *seen {
	s := &seen{}
	s.work.Go(func() {
		for {
			e, err := res.Next()
			if err != nil {
				return
			}
			if e.Data != "" {
				s.mu.Lock()
				s.n++
				s.mu.Unlock()
			}
		}
	})
	return s
}

func (s *seen) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

func (s *seen) wait() { s.work.Wait() }

// settledStreams gives streams of their own a moment: nothing on them could be waited for.
func settledStreams(t *suite.Trial) {
	select {
	case <-time.After(quietPeriod):
	case <-t.Context().Done():
	}
}

// patience closes a stream after a time, since nothing says when there is no more to come; what it gives ends it.
func patience(res *peer.Response, d time.Duration) (stop func()) {
	timer := time.AfterFunc(d, res.Close)
	return func() { timer.Stop() }
}

// eventually waits for a condition, for a short time.
func eventually(t *suite.Trial, is func() bool) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 200 {
		if is() {
			return
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			return
		}
	}
}
