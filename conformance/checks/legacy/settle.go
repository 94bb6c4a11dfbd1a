package legacy

import (
	"sync/atomic"
	"time"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// waitSettled waits until what the server sends for earlier messages has arrived: on the stream that all messages share until later pings are
// answered, on a GET stream until an update of a resource comes there.
func waitSettled(t *suite.Trial, c *peer.Conn) { settle(t, c, resourceMarker) }

// settle is waitSettled with a marker to choose: one that is not what the check is about.
func settle(t *suite.Trial, c *peer.Conn, m marker) {
	for range checkutil.Fences {
		_ = mustRequest(t, c, "ping", "")
	}
	if t.Face == peer.LegacyHTTP && c.Listens() && !m.arrives(t, c) {
		checkutil.Pause(t, quietPeriod)
	}
}

// quietPeriod is the wait for messages that no later message is known to follow on their stream.
const quietPeriod = 120 * time.Millisecond

// marker is a change that a tool of the fixture makes, and the notification of it.
type marker struct {
	capability   [2]string // path of the capability that promises the notification
	tool, method string
	uri          string // of the resource to subscribe to; empty: none
}

var (
	resourceMarker = marker{[2]string{"resources", "subscribe"}, "test_trigger_resource_update", updatedMethod, watched}
	toolsMarker    = marker{[2]string{"tools", "listChanged"}, "test_trigger_tool_change", toolsChanged, ""}
)

// arrives makes the change and reports whether its notification comes on the GET stream. A stream keeps its order, so what the server has sent
// before has arrived then. It does so twice: the first notification may be that of an earlier change, which another client has made.
func (m marker) arrives(t *suite.Trial, c *peer.Conn) bool {
	if !declares(c, m.capability[:]...) || t.Offer.Tool(m.tool) == nil {
		return false
	}
	if m.uri != "" {
		params := peer.Encode(peer.Object{"uri": m.uri})
		if answer, err := c.Request("resources/subscribe", params); err != nil || answer.Failed() {
			return false
		}
		defer func() { _, _ = c.Request("resources/unsubscribe", params) }()
	}
	for range 2 {
		before, n := len(checkutil.OfMethod(c.Others(), m.method)), 0
		call, err := c.Start("tools/call", toolCall(m.tool, peer.Object{}, ""))
		if err == nil {
			_, err = call.Wait()
		}
		if err != nil || len(checkutil.OfMethod(call.Got(), m.method)) > 0 { // no answer, or the notification on the stream of the call
			return false
		}
		if _, err := c.WaitOther(func(got peer.Message) bool {
			if got.Method == m.method {
				n++
			}
			return n > before
		}); err != nil {
			return false
		}
	}
	return true
}

// followed is a stream that a goroutine reads.
type followed struct {
	count atomic.Int64  // messages
	ended chan struct{} // closed at the end of the stream
}

// follow counts the messages of a stream until its end. The trial closes the stream.
func follow(t *suite.Trial, res *peer.Response) *followed {
	s := &followed{ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		for {
			e, err := res.Next()
			if err != nil {
				return
			}
			if e.Data != "" {
				s.count.Add(1)
			}
		}
	}()
	t.Cleanup(func() { res.Close(); <-s.ended })
	return s
}

func (s *followed) over() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// eventually waits for a condition, at most for a time.
func eventually(t *suite.Trial, d time.Duration, is func() bool) {
	for end := time.Now().Add(d); !is() && time.Now().Before(end) && t.Context().Err() == nil; {
		checkutil.Pause(t, 5*time.Millisecond)
	}
}
