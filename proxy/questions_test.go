package proxy

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"dragoman/proxy/wire"
)

func session() *Session { return NewSession("s", "stdio", "", Caller{}, time.Now()) }

func message(t *testing.T, raw string) *wire.Message {
	t.Helper()
	m, err := wire.Scan([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return &m
}

// An answer is delivered to its question once, and only if the ids are equal.
func TestExpectAndAnswer(t *testing.T) {
	s := session()
	var got []string
	take := func(m *wire.Message) { got = append(got, string(m.Raw)) }
	one, err := s.Expect(take)
	if err != nil || string(one) != `"dragoman-1"` {
		t.Fatalf("%s %v", one, err)
	}
	two, _ := s.Expect(take)
	three, _ := s.Expect(take)
	if s.OpenQuestions() != 3 {
		t.Errorf("%d open questions", s.OpenQuestions())
	}
	if !s.Withdraw(two) || s.Withdraw(two) {
		t.Error("not withdrawn once")
	}
	for raw, want := range map[string]bool{
		`{"jsonrpc":"2.0","id":1,"result":{}}`:                                          false,
		`{"jsonrpc":"2.0","id":"1","result":{}}`:                                        false,
		`{"jsonrpc":"2.0","id":` + string(two) + `,"result":{}}`:                        false,
		`{"jsonrpc":"2.0","id":` + string(three) + `,"error":{"code":-1,"message":""}}`: true,
		`{"jsonrpc":"2.0","error":{"code":-1,"message":""}}`:                            false,
	} {
		if s.Answer(message(t, raw)) != want {
			t.Errorf("%s: not %v", raw, want)
		}
	}
	if s.Answer(message(t, `{"jsonrpc":"2.0","id":"dragoman-3","result":{}}`)) || len(got) != 1 || s.Withdraw(three) {
		t.Errorf("answered twice: %q", got)
	}
	s.End(Closed)
	if s.Answer(message(t, `{"jsonrpc":"2.0","id":"dragoman-1","result":{}}`)) || s.OpenQuestions() != 0 {
		t.Error("answered after the end")
	}
	if _, err := s.Expect(take); !errors.Is(err, ErrCancelled) {
		t.Errorf("asked after the end: %v", err)
	}
}

// The open questions of a session are bounded.
func TestExpectBound(t *testing.T) {
	s := session()
	for i := range maxQuestions {
		if _, err := s.Expect(nil); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	if _, err := s.Expect(nil); !errors.Is(err, ErrTooManyQuestions) {
		t.Errorf("%v", err)
	}
	s.Withdraw([]byte(`"dragoman-7"`))
	if id, err := s.Expect(nil); err != nil || string(id) != fmt.Sprintf(`"dragoman-%d"`, maxQuestions+1) {
		t.Errorf("%s %v: an id is used once", id, err)
	}
}

// Concurrent questions, answers and end of the session.
func TestQuestionsRace(t *testing.T) {
	s := session()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 200 {
				id, err := s.Expect(func(*wire.Message) {})
				if err != nil {
					return
				}
				raw := `{"jsonrpc":"2.0","id":` + string(id) + `,"result":{}}`
				answered := make(chan bool, 1)
				go func() {
					m, _ := wire.Scan([]byte(raw))
					answered <- s.Answer(&m)
				}()
				withdrawn := s.Withdraw(id)
				if a := <-answered; a == withdrawn && s.State() < Closed {
					t.Errorf("answered %v, withdrawn %v", a, withdrawn)
				}
				s.Keep("", []byte(raw))
			}
		})
	}
	group.Go(func() {
		for range 50 {
			o := &boundedOutlet{}
			s.SetOutlet(o)
			s.ClearOutlet(o)
		}
	})
	group.Wait()
	s.End(Closed)
}

// boundedOutlet is an outlet that accepts a number of messages.
type boundedOutlet struct {
	mu   sync.Mutex
	got  []string
	most int // 0: any number
	over bool
}

func (o *boundedOutlet) Push(msg []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.most > 0 && len(o.got) >= o.most {
		return errors.New("full")
	}
	o.got = append(o.got, string(msg))
	return nil
}

func (o *boundedOutlet) End() { o.over = true }

func (o *boundedOutlet) all() string { return strings.Join(o.got, " ") }

// Messages without an open stream are sent on the next one, in order; of those with the same key only the newest.
func TestKeep(t *testing.T) {
	s := session()
	borrowed := []byte("a1")
	s.Keep("a", borrowed)
	copy(borrowed, "xx") // msg is copied
	s.Keep("", []byte("q1"))
	s.Keep("b", []byte("b1"))
	s.Keep("a", []byte("a2"))
	s.Keep("", []byte("q1"))
	small := &boundedOutlet{most: 2}
	s.SetOutlet(small)
	if small.all() != "a2 q1" {
		t.Errorf("%s", small.all())
	}
	s.Keep("c", []byte("c1")) // the outlet does not accept it
	s.ClearOutlet(small)
	next := &boundedOutlet{}
	s.SetOutlet(next)
	if next.all() != "b1 q1 c1" {
		t.Errorf("%s", next.all())
	}
	s.Keep("a", []byte("a3"))
	s.Keep("a", []byte("a3"))
	if next.all() != "b1 q1 c1 a3 a3" {
		t.Errorf("%s: with a stream open each is sent", next.all())
	}
	last := &boundedOutlet{}
	s.SetOutlet(last)
	if last.all() != "" || !next.over {
		t.Errorf("sent twice: %s", last.all())
	}
	s.End(Closed)
	s.Keep("", []byte("late"))
	if len(s.kept) != 0 {
		t.Error("kept after the end")
	}
}

// The kept messages are bounded by number and by size; the oldest is dropped.
func TestKeepBounds(t *testing.T) {
	s := session()
	for i := range keptMessages + 10 {
		s.Keep("", fmt.Appendf(nil, "m%d", i))
	}
	if len(s.kept) != keptMessages || string(s.kept[0].msg) != "m10" {
		t.Errorf("%d kept, the first %s", len(s.kept), s.kept[0].msg)
	}
	big := make([]byte, keptBytes/2)
	for range 5 {
		s.Keep("", big)
	}
	s.Keep("k", []byte("x"))
	s.Keep("k", make([]byte, keptBytes*2))
	size := 0
	for _, k := range s.kept {
		size += len(k.msg)
	}
	if size != s.keptSize {
		t.Errorf("%d bytes kept, %d counted", size, s.keptSize)
	}
	if size > keptBytes && len(s.kept) > 1 {
		t.Errorf("%d bytes kept in %d messages", size, len(s.kept))
	}
}
