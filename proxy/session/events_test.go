package session

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// recorder is a Connection, and an Outlet, that records.
type recorder struct {
	mu   sync.Mutex
	got  []string
	over bool
	gone bool
}

func (s *recorder) Event(id, msg []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone || s.over {
		return errors.New("gone")
	}
	s.got = append(s.got, string(id)+" "+string(msg))
	return nil
}

func (s *recorder) Rest(id []byte) {
	s.mu.Lock()
	s.got = append(s.got, string(id)+" rest")
	s.mu.Unlock()
	s.End()
}

func (s *recorder) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

func (s *recorder) Push(msg []byte) error { return s.Event(nil, msg) }

func (s *recorder) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.got, "\n")
}

func (s *recorder) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

func message(t *testing.T, raw string) *wire.Message {
	t.Helper()
	m, err := wire.Scan([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return &m
}

func note(n int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/x%d"}`, n) }

const (
	question = `{"jsonrpc":"2.0","id":"q1","method":"roots/list"}`
	undo     = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q1"}}`
	reply    = `{"jsonrpc":"2.0","id":1,"result":{}}`
)

func add(t *testing.T, s *Stream, raw string) string {
	t.Helper()
	id, _ := s.Add(message(t, raw), []byte(raw))
	return string(id)
}

func carry(t *testing.T, s *Stream, raw string) {
	t.Helper()
	s.Carry(message(t, raw), []byte(raw))
}

func newEvents(t *testing.T, limits EventLimits) (*Events, *proxy.Session, *Usage) {
	t.Helper()
	sess := proxy.NewSession("s", "streamable-http", "", proxy.Caller{}, time.Now())
	u := new(Usage)
	e := NewEvents(sess, limits, u)
	e.Start()
	t.Cleanup(func() {
		sess.End(proxy.Closed)
		if n, b := u.Streams.Load(), u.Bytes.Load(); n != 0 || b != 0 {
			t.Errorf("after the session %d streams and %d bytes are kept", n, b)
		}
	})
	return e, sess, u
}

var roomy = EventLimits{Events: 256, Bytes: 1 << 20, Grace: time.Hour}

// replay returns what a client receives that resumes with id; nil if the id is unknown.
func replay(e *Events, id string) *recorder {
	s, after := e.Find([]byte(id))
	if s == nil {
		return nil
	}
	t := new(recorder)
	s.Attach(t, after)
	return t
}

func want(t *testing.T, what, got string, lines ...string) {
	t.Helper()
	if w := strings.Join(lines, "\n"); got != w {
		t.Fatalf("%s:\n%s\nwant\n%s", what, got, w)
	}
}

// A stream is replayed after the client's last event, continues live, and ends.
func TestEventsReplayThenLive(t *testing.T) {
	e, _, _ := newEvents(t, roomy)
	a, b := e.Open(false), e.Open(false)
	prime := string(a.Mark())
	if first := add(t, a, note(1)); prime != "s1-1" || first != "s1-2" {
		t.Fatalf("ids %s %s", prime, first)
	}
	add(t, b, note(9))
	a.Lose()
	carry(t, a, note(2))
	back := replay(e, "s1-2")
	carry(t, a, note(3))
	carry(t, a, reply)
	if back.ended() {
		t.Fatal("it ended before its stream: a batch goes on after a response")
	}
	a.Finish(false)
	want(t, "picked up", back.said(), "s1-3 "+note(2), "s1-4 "+note(3), "s1-5 "+reply)
	if !back.ended() {
		t.Error("the stream is finished, its connection not ended")
	}
	if again := replay(e, "s1-4"); again.said() != "s1-5 "+reply || !again.ended() {
		t.Errorf("after the end: %q", again.said())
	}
	if primed := replay(e, "s1-1"); !strings.HasPrefix(primed.said(), "s1-2 "+note(1)) {
		t.Errorf("after the priming event: %q", primed.said())
	}
}

func TestEventsUnknownIDs(t *testing.T) {
	e, _, _ := newEvents(t, roomy)
	add(t, e.Open(false), note(1))
	for _, id := range []string{"", "s1", "s1-", "s1-2", "s2-1", "1-1", "s-1", "s1-1-1", "s1--1", "s1-99999999999999999999999", "x", "s+1-1"} {
		if s, _ := e.Find([]byte(id)); s != nil {
			t.Errorf("a stream was found for id %q", id)
		}
	}
	if s, after := e.Find([]byte("s1-1")); s == nil || after != 1 {
		t.Errorf("s1-1 finds %v %d", s, after)
	}
}

func TestEventsBounds(t *testing.T) {
	limits := EventLimits{Events: 3, Bytes: 4 << 10, Grace: time.Hour}
	e, _, u := newEvents(t, limits)
	s := e.Open(false)
	s.Mark()
	for i := range 5 {
		add(t, s, note(i))
	}
	s.Lose()
	want(t, "the newest three", replay(e, "s1-1").said(), "s1-4 "+note(2), "s1-5 "+note(3), "s1-6 "+note(4))

	long := `{"jsonrpc":"2.0","method":"notifications/x","params":{"x":"` + strings.Repeat("x", 1000) + `"}}`
	done := e.Open(false) // the oldest finished stream is dropped first, as a whole
	add(t, done, note(7))
	done.Finish(false)
	other := e.Open(false)
	for range 3 {
		add(t, other, long)
	}
	if replay(e, "s1-4") == nil || u.Bytes.Load() > int64(limits.Bytes) {
		t.Fatalf("%d bytes", u.Bytes.Load())
	}
	third := e.Open(false)
	add(t, third, long)
	if s, _ := e.Find([]byte("s2-1")); s != nil {
		t.Error("a finished stream outlived the limit")
	}
	if u.Bytes.Load() > int64(limits.Bytes) || u.Streams.Load() != 3 {
		t.Errorf("%d streams, %d bytes", u.Streams.Load(), u.Bytes.Load())
	}
	if got := replay(e, "s4-1"); got == nil || got.said() != "" {
		t.Error("the stream of the newest event was dropped")
	}
}

// A response that is too large to record is replaced by an error: the client must not wait for ever.
func TestEventsLargeResponse(t *testing.T) {
	e, _, _ := newEvents(t, EventLimits{Events: 8, Bytes: 2 << 10, Grace: time.Hour})
	s := e.Open(false)
	s.Mark()
	s.Lose()
	carry(t, s, `{"jsonrpc":"2.0","id":7,"result":{"x":"`+strings.Repeat("x", 4<<10)+`"}}`)
	s.Finish(false)
	got := replay(e, "s1-1").said()
	if !strings.HasPrefix(got, `s1-2 {"jsonrpc":"2.0","id":7,"error":`) || !strings.Contains(got, "response_too_large") {
		t.Errorf("kept: %s", got)
	}
}

// All sessions together have a limit, too. Beyond it the session that adds an event drops some of its own, and a response without room
// is replaced by an error.
func TestEventsTotal(t *testing.T) {
	limits := EventLimits{Events: 8, Bytes: 1 << 20, Total: 64 << 10, Grace: time.Hour}
	first, _, u := newEvents(t, limits)
	second := NewEvents(proxy.NewSession("t", "streamable-http", "", proxy.Caller{}, time.Now()), limits, u)
	second.Start()
	t.Cleanup(second.end)
	lost := func(e *Events) *Stream {
		s := e.Open(false)
		s.Mark()
		s.Lose()
		return s
	}
	large := func(n int) string {
		return `{"jsonrpc":"2.0","id":7,"result":{"x":"` + strings.Repeat("x", n) + `"}}`
	}
	a, b := lost(first), lost(second)
	carry(t, a, large(50<<10))
	carry(t, b, large(20<<10))
	if got := replay(second, "s1-1").said(); !strings.HasPrefix(got, `s1-2 {"jsonrpc":"2.0","id":7,"error":`) || !strings.Contains(got, "resume.total") {
		t.Errorf("kept: %.200s", got)
	}
	if got := replay(first, "s1-1").said(); !strings.HasSuffix(got, large(50<<10)) {
		t.Errorf("dropped for another session: %.200s", got)
	}
	for i := range 6 {
		carry(t, b, `{"jsonrpc":"2.0","method":"notifications/x","params":{"x":"`+strings.Repeat("y", 6<<10)+strconv.Itoa(i)+`"}}`)
	}
	if n := u.Bytes.Load(); n > int64(limits.Total)+leastKept {
		t.Errorf("%d bytes are kept", n)
	}
	if got := replay(first, "s1-1").said(); !strings.HasSuffix(got, large(50<<10)) {
		t.Errorf("dropped for another session's notifications: %.200s", got)
	}
}

func TestEventsSpentStreamsAreFew(t *testing.T) {
	e, _, u := newEvents(t, roomy)
	for range 3 * spentKept {
		s := e.Open(false)
		add(t, s, reply)
		s.Finish(true)
	}
	if n := u.Streams.Load(); n != spentKept {
		t.Errorf("%d streams kept that were written to their end", n)
	}
}

// The first writer of a stream stops when the client has resumed it.
func TestEventsMoved(t *testing.T) {
	e, _, _ := newEvents(t, roomy)
	s := e.Open(false)
	add(t, s, note(1))
	back := replay(e, "s1-1")
	if _, moved := s.Add(message(t, note(2)), []byte(note(2))); !moved {
		t.Error("the first writer was not stopped")
	}
	want(t, "picked up", back.said(), "s1-2 "+note(2))
	newer := replay(e, "s1-2")
	if !back.ended() || newer.ended() {
		t.Error("of two the newer one has the stream")
	}
	s.Detach(back)
	carry(t, s, note(3))
	want(t, "picked up again", newer.said(), "s1-3 "+note(3))
}

// A question that was never written is sent once, on the first of the two streams that opens.
func TestEventsUnwrittenQuestion(t *testing.T) {
	e, sess, _ := newEvents(t, roomy)
	s := e.Open(false)
	s.Mark()
	s.Lose()
	carry(t, s, question)
	carry(t, s, note(1))
	out := new(recorder)
	sess.SetOutlet(out)
	want(t, "on the session's stream", out.said(), " "+question)
	carry(t, s, undo)
	want(t, "at once, now that it is open", out.said(), " "+question, " "+undo)
	want(t, "not replayed", replay(e, "s1-1").said(), "s1-3 "+note(1))

	s = e.Open(false) // and the other way round
	sess.ClearOutlet(out)
	s.Mark()
	s.Lose()
	carry(t, s, question)
	want(t, "picked up first", replay(e, "s2-1").said(), "s2-2 "+question)
	out = new(recorder)
	sess.SetOutlet(out)
	want(t, "not again", out.said())
}

// A question that the client may have received is sent again only if the client has not resumed in time and not answered, and the
// question is still open.
func TestEventsWrittenQuestion(t *testing.T) {
	limits := roomy
	limits.Grace = 30 * time.Millisecond
	for name, c := range map[string]struct {
		before func(e *Events, s *Stream)
		again  bool
	}{
		"lost":      {func(*Events, *Stream) {}, true},
		"answered":  {func(e *Events, _ *Stream) { e.Answered([]byte(`"q1"`)) }, false},
		"finished":  {func(_ *Events, s *Stream) { s.Finish(false) }, false},
		"picked up": {func(e *Events, _ *Stream) { replay(e, "s1-1") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			e, sess, _ := newEvents(t, limits)
			out := new(recorder)
			sess.SetOutlet(out)
			s := e.Open(false)
			s.Mark()
			add(t, s, question)
			s.Lose()
			if lost := s.Tend(0, time.Hour); out.said() != "" || time.Until(lost) > time.Minute {
				t.Fatalf("at once: %q, and next at %v", out.said(), lost)
			}
			c.before(e, s)
			for end := time.Now().Add(3 * limits.Grace); time.Now().Before(end); {
				time.Sleep(time.Until(s.Tend(0, limits.Grace)))
			}
			if got := out.said() != ""; got != c.again {
				t.Errorf("put again: %v (%s)", got, out.said())
			}
			if back := replay(e, "s1-1"); c.again && back.said() != "" {
				t.Errorf("put twice: %s", back.said())
			}
		})
	}
}

// The session's own stream continues in its record. What cannot be written is not recorded, since it will be sent again.
func TestEventsOwnStream(t *testing.T) {
	e, _, _ := newEvents(t, roomy)
	own := e.Open(true)
	if err := own.Push([]byte(note(1))); !errors.Is(err, proxy.ErrNoOutlet) {
		t.Fatal(err)
	}
	first := new(recorder)
	own.Attach(first, 0)
	if own.Push([]byte(note(2))) != nil || own.Push([]byte(note(3))) != nil {
		t.Fatal("push")
	}
	first.gone = true
	if own.Push([]byte(note(4))) == nil {
		t.Fatal("a push that failed was taken")
	}
	back := replay(e, "s1-1")
	want(t, "missed", back.said(), "s1-2 "+note(3))
	newer := e.Open(true)
	newer.Attach(new(recorder), 0)
	back = replay(e, "s1-1") // the older stream is finished, but resuming it makes it the session's own again
	if back.ended() && back.said() == "" {
		t.Fatal("cannot be resumed")
	}
}

func TestEventsHold(t *testing.T) {
	e, _, _ := newEvents(t, roomy)
	s := e.Open(false)
	add(t, s, note(1))
	s.Lose()
	back := replay(e, "s1-1")
	hold := 20 * time.Millisecond
	if next := s.Tend(hold, time.Hour); time.Until(next) > hold {
		t.Fatal("not swept in time")
	}
	for !back.ended() {
		time.Sleep(time.Until(s.Tend(hold, hold)))
	}
	want(t, "let go", back.said(), "s1-2 rest")
	carry(t, s, reply)
	want(t, "back again", replay(e, "s1-2").said(), "s1-3 "+reply)
}

// After the end of the session nothing is kept, and nothing fails.
func TestEventsEnd(t *testing.T) {
	e, sess, u := newEvents(t, roomy)
	s := e.Open(false)
	add(t, s, note(1))
	s.Lose()
	back := replay(e, "s1-1")
	sess.End(proxy.Closed)
	carry(t, s, reply)
	s.Finish(false)
	want(t, "the last word", back.said(), "s1-2 "+reply)
	late := e.Open(false)
	add(t, late, note(2))
	late.Finish(true)
	if !back.ended() || u.Streams.Load() != 0 || u.Bytes.Load() != 0 {
		t.Errorf("ended %v, %d streams, %d bytes", back.ended(), u.Streams.Load(), u.Bytes.Load())
	}
}
