package sessions

import (
	"strings"
	"testing"
	"time"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/adapters/transport"
	"dragoman/proxy"
)

// Processes are counted until they have ended, and limits name their key.
func TestQuota(t *testing.T) {
	s := &fakeserver.Server{}
	q := NewQuota(&transport.Server{Name: "up", Wires: transport.Wires{Stdio: true}}, Options{LeaseWait: 5 * time.Second, Processes: Processes{Max: 3, PerPrincipal: 2}}, func(string, bool) bool { return false })
	take := func(who string) (transport.Link, string) {
		link, err := q.Dial(t.Context(), s.Dial, who, transport.Discard{})
		if err != nil {
			return nil, proxy.AsError(err).Message
		}
		return link, ""
	}
	one, _ := take("p")
	two, _ := take("p")
	if _, text := take("p"); !strings.Contains(text, "all of this caller's 2 processes") || !strings.Contains(text, "upstreams.up.max_processes_per_principal") {
		t.Error(text)
	}
	three, _ := take("q")
	if _, text := take("r"); !strings.Contains(text, "all 3 processes") || !strings.Contains(text, "upstreams.up.max_processes") {
		t.Error(text)
	}
	q.limits.Max, q.limits.Spares = 5, 2
	if _, text := take("r"); !strings.Contains(text, "all 5 processes of the upstream server are in use (2 of them spares)") {
		t.Error(text)
	}
	q.limits.Max, q.limits.Spares = 3, 0
	// A process that is ending is waited for.
	slow := make(chan struct{})
	link := &counted{Link: slowly{two, slow}, q: q, principal: "p"}
	closed := make(chan struct{})
	go func() { _ = link.Close(); close(closed) }()
	for q.waiting() == 0 {
		time.Sleep(time.Millisecond)
	}
	got := make(chan transport.Link, 1)
	go func() {
		l, _ := take("p")
		got <- l
	}()
	select {
	case <-got:
		t.Error("the process that was ending did not count")
	case <-time.After(10 * time.Millisecond):
	}
	close(slow)
	<-closed
	next := <-got
	if next == nil {
		t.Fatal("refused after the process had ended")
	}
	for _, l := range []transport.Link{one, three, next} {
		_ = l.Close()
		_ = l.Close() // counts once
	}
}

// waiting is how many processes are ending.
func (q *Quota) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ending
}

// slowly is a link whose end takes a while. The link that it stands for is counted too, and closed beneath that.
type slowly struct {
	transport.Link
	until chan struct{}
}

func (l slowly) Close() error {
	<-l.until
	return l.Link.(*counted).Link.Close()
}
