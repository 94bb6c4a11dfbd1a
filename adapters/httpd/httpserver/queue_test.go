package httpserver

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"dragoman/internal/testkit"
)

// The queue of a stream has a bound in bytes, which counts frames and not the head; a single event may be larger. Events
// written before the handler returned are sent afterwards.
func TestQueueBeforeTheStart(t *testing.T) {
	for _, c := range []struct {
		name   string
		queue  int
		events []int // sizes
		fails  bool  // the last one
	}{
		{"it fits", 100, []int{50, 44}, false}, // 50 bytes are 56 with their frame
		{"one byte too many", 100, []int{50, 45}, true},
		{"a single one is larger", 100, []int{1000}, false},
		{"behind a larger one", 100, []int{1000, 1}, true},
		{"nothing", 100, []int{1000, 0}, false},
		{"the standard", 0, []int{1 << 19, 1 << 18}, false},
		{"beyond the standard", -1, []int{1 << 20, 1}, true},
	} {
		errs, closed := make(chan error, 1), make(chan error, 1)
		_, addr := serve(t, Options{}, nil, func(s *Server) {
			s.Handle("GET", "/x", func(ctx *fasthttp.RequestCtx) {
				h, err := OpenStream(ctx, StreamOptions{First: []byte("first"), Queue: c.queue, OnClose: func(err error) { closed <- err }})
				for _, size := range c.events {
					err = h.Write([]byte(strings.Repeat("e", size)))
				}
				errs <- err
				h.End()
			})
		})
		client := dialTo(t, addr)
		client.send(get)
		if err := testkit.Receive(t, "the writes", errs); errors.Is(err, ErrSlowReader) != c.fails || !c.fails && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		body := ""
		if !c.fails {
			_, body = client.answer()
		}
		want := "first"
		for _, size := range c.events {
			want += strings.Repeat("e", size)
		}
		if !c.fails && body != want {
			t.Errorf("%s: %d bytes arrive, want %d", c.name, len(body), len(want))
		}
		if err := testkit.Receive(t, "the end", closed); errors.Is(err, ErrSlowReader) != c.fails || !c.fails && err != nil {
			t.Errorf("%s: closed with %v", c.name, err)
		}
	}
}

// A small answer needs no room, a large one has it until it has been written.
func TestReserveAnswer(t *testing.T) {
	got := make(chan AnswerLimit, 1)
	s, addr := serve(t, Options{MaxAnswers: largeAnswer, MaxAnswersEach: largeAnswer}, nil, func(s *Server) {
		for path, size := range map[string]int{"/small": largeAnswer - 1, "/large": largeAnswer} {
			s.Handle("GET", path, func(ctx *fasthttp.RequestCtx) {
				got <- ReserveAnswer(ctx, size)
				if used := s.AnswerStats().Bytes; (used == largeAnswer) != (size == largeAnswer) {
					t.Errorf("%s: %d bytes are reserved", path, used)
				}
				ctx.SetBody(make([]byte, size))
			})
		}
	})
	c := dialTo(t, addr)
	for _, path := range []string{"/small", "/large", "/large", "/small"} {
		c.send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
		if limit := testkit.Receive(t, "the room", got); limit != AnswersFit {
			t.Errorf("%s: %d", path, limit)
		}
		if _, err := io.Copy(io.Discard, c.head().Body); err != nil {
			t.Error(err)
		}
	}
	testkit.Eventually(t, "the room is given back", func() bool { return s.AnswerStats().Bytes == 0 })
}
