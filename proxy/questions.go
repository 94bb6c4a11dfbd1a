package proxy

import (
	"bytes"
	"errors"
	"slices"
	"strconv"

	"dragoman/proxy/wire"
)

// Bounds on what a session keeps while its client has no stream open. The oldest messages beyond them are dropped.
const (
	keptMessages = 1024
	keptBytes    = 1 << 20
)

// ErrTooManyQuestions means that the client has maxQuestions open questions.
var ErrTooManyQuestions = errors.New("proxy: too many questions are unanswered in this session")

// maxQuestions bounds the open questions of a session.
const maxQuestions = 256

// kept is a message for a client without an open stream. Of messages with the same key only the newest is kept.
type kept struct {
	key string
	msg []byte
}

// Expect registers a question and returns its id (raw JSON), which is unique in the session and differs from all ids of servers. take
// receives the answer once, borrowed until it returns, on the goroutine that has read it; it must not block. Withdraw removes the
// question.
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

// Withdraw removes a question; false if it was answered or withdrawn before.
func (s *Session) Withdraw(id []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, was := s.questions[string(id)]
	delete(s.questions, string(id))
	return was
}

// Answer passes a response of the client to its question; false if there is none.
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

// OpenQuestions returns the number of questions without an answer.
func (s *Session) OpenQuestions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.questions)
}

// Keep sends the client a message that belongs to none of its requests, now if a stream is open, else as soon as one is. Of several
// messages with the same key only the newest is kept; messages without a key are all kept, up to a bound. msg is copied.
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
	i := slices.IndexFunc(s.kept, func(k kept) bool { return key != "" && k.key == key })
	if i < 0 {
		i, s.kept = len(s.kept), append(s.kept, kept{key: key})
	}
	s.keptSize += len(msg) - len(s.kept[i].msg)
	s.kept[i].msg = bytes.Clone(msg)
	s.trim()
}

// trim drops the oldest messages beyond the bounds. The caller holds s.mu.
func (s *Session) trim() {
	for len(s.kept) > keptMessages || s.keptSize > keptBytes && len(s.kept) > 1 {
		s.keptSize -= len(s.kept[0].msg)
		s.kept = s.kept[1:]
	}
}

// catchUp sends the kept messages to a new outlet. What it does not accept is kept.
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
