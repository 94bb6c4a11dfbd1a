package proxy

import (
	"errors"
	"strconv"

	"dragoman/proxy/wire"
)

// Bounds on what a session keeps while its client has no stream open. Beyond them the oldest goes.
const (
	keptMessages = 1024
	keptBytes    = 1 << 20
)

// ErrTooManyQuestions says that a session's client owes as many answers as it may.
var ErrTooManyQuestions = errors.New("proxy: too many questions are unanswered in this session")

// maxQuestions bounds the answers that a client may owe.
const maxQuestions = 256

// kept is a message for a client that had no stream open. Messages of one key stand for each other: the newest counts.
type kept struct {
	key string
	msg []byte
}

// Expect registers that an answer of the client is awaited, and mints the id (raw JSON) under which to ask: unique in the
// session, and of a shape that no server's own ids have. take receives the answer once, borrowed until it returns, on the
// goroutine that read it; it must not wait. Take the question back with Withdraw.
func (s *Session) Expect(take func(m *wire.Message)) (id []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state >= Closed {
		return nil, ErrCancelled
	}
	if len(s.questions) >= maxQuestions {
		return nil, ErrTooManyQuestions
	}
	s.asked++
	id = append(strconv.AppendUint([]byte(`"dragoman-`), s.asked, 10), '"')
	if s.questions == nil {
		s.questions = make(map[string]func(*wire.Message))
	}
	s.questions[string(id)] = take
	return id, nil
}

// Withdraw takes a question back; false if it was answered, or withdrawn before.
func (s *Session) Withdraw(id []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, was := s.questions[string(id)]
	delete(s.questions, string(id))
	return was
}

// Answer takes a response of the client to whoever awaits it; false if nobody does.
func (s *Session) Answer(m *wire.Message) bool {
	id := string(m.Of(m.ID))
	s.mu.Lock()
	take := s.questions[id]
	delete(s.questions, id)
	s.mu.Unlock()
	if take == nil {
		return false
	}
	take(m)
	return true
}

// OpenQuestions tells how many answers of the client are awaited.
func (s *Session) OpenQuestions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.questions)
}

// Keep tells the client something that belongs to none of its requests, now if a stream is open, else as soon as one
// is. Of several messages with the same key, which must not be empty, only the newest is kept; messages without key are
// all kept, up to a bound. msg is copied.
func (s *Session) Keep(key string, msg []byte) {
	s.mu.Lock()
	o := s.outlet
	s.mu.Unlock()
	if o != nil && o.Push(msg) == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state >= Closed {
		return
	}
	if key != "" {
		for i := range s.kept {
			if s.kept[i].key == key {
				s.keptSize += len(msg) - len(s.kept[i].msg)
				s.kept[i].msg = append([]byte(nil), msg...)
				s.trim()
				return
			}
		}
	}
	s.kept = append(s.kept, kept{key, append([]byte(nil), msg...)})
	s.keptSize += len(msg)
	s.trim()
}

// trim lets the oldest go of what is kept beyond the bounds. The caller holds s.mu.
func (s *Session) trim() {
	for len(s.kept) > keptMessages || s.keptSize > keptBytes && len(s.kept) > 1 {
		s.keptSize -= len(s.kept[0].msg)
		s.kept = s.kept[1:]
	}
}

// catchUp gives a new outlet what was kept for it; what it does not take stays.
func (s *Session) catchUp(o Outlet) {
	for {
		s.mu.Lock()
		if s.outlet != o || len(s.kept) == 0 {
			s.mu.Unlock()
			return
		}
		next := s.kept[0]
		s.kept = s.kept[1:]
		s.keptSize -= len(next.msg)
		s.mu.Unlock()
		if o.Push(next.msg) != nil {
			s.mu.Lock()
			s.kept = append([]kept{next}, s.kept...)
			s.keptSize += len(next.msg)
			s.mu.Unlock()
			return
		}
	}
}
