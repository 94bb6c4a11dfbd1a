package httpserver

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/internal/testkit"
)

// piecesBody is a response that writes itself in pieces.
type piecesBody struct {
	WriteOnly
	pieces []string
	ended  chan struct{} // closed when all are written
}

func (b *piecesBody) WriteTo(w io.Writer) (sum int64, err error) {
	defer close(b.ended)
	for _, p := range b.pieces {
		n, err := w.Write([]byte(p))
		if sum += int64(n); err != nil {
			return sum, err
		}
	}
	return sum, nil
}

func (b *piecesBody) Close() error { return nil }

// The pieces of an answer arrive complete and in order, whatever their sizes, also if the client lets them wait.
func TestAnswerInPieces(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sizes []int
		waits bool
	}{
		"mixed":         {[]int{1, maxCopied - 1, 1, maxCopied, maxCopied + 1, 10, 300 << 10, 5, maxCopied, maxCopied, 70_000, 3}, false},
		"small at last": {[]int{maxCopied, 1}, false},
		"small, unread": {slices.Repeat([]int{4<<10 + 1}, 4<<10), true},
		"large, unread": {[]int{8 << 20, 3, 8 << 20, maxCopied, 7}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &piecesBody{ended: make(chan struct{})}
			for i, size := range c.sizes {
				b.pieces = append(b.pieces, strings.Repeat(string(rune('a'+i%26)), size))
			}
			want := strings.Join(b.pieces, "")
			_, addr := serving(t, Options{WriteTimeout: time.Minute}, func(ctx *fasthttp.RequestCtx) { ctx.Response.SetBodyStream(b, len(want)) })
			client := dialTo(t, addr)
			client.send(get)
			if c.waits {
				testkit.Receive(t, "the end of the body, unread", b.ended)
			}
			if _, got := client.answer(); got != want {
				t.Errorf("%d bytes of %d, or others", len(got), len(want))
			}
		})
	}
}

// An answer that has another size than its head says ends its connection, since nothing can follow it.
func TestAnswerOfAnotherSize(t *testing.T) {
	t.Parallel()
	_, addr := serving(t, Options{}, func(ctx *fasthttp.RequestCtx) {
		ctx.Response.SetBodyStream(&piecesBody{pieces: []string{"short"}, ended: make(chan struct{})}, 100)
	})
	c := dialTo(t, addr)
	c.send(get)
	if got, err := io.ReadAll(c.br); err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// A large answer that is there as a whole counts with all its bytes from the beginning, and no longer than it is written.
func TestWholeAnswerCounts(t *testing.T) {
	t.Parallel()
	const size = 16 << 20
	s, addr := serving(t, Options{}, func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString(strings.Repeat("x", size)) })
	c := dialTo(t, addr)
	c.send(get)
	testkit.Eventually(t, "it counts", func() bool { return s.AnswerStats().Bytes == size })
	if _, body := c.answer(); len(body) != size {
		t.Errorf("%d bytes", len(body))
	}
	testkit.Eventually(t, "it counts no more", func() bool { return s.AnswerStats().Bytes == 0 })
}

// Events behind a large one are sent after it, although nothing further is written, whether or not the client has let it wait.
func TestEventsBehindALargeOne(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		_, addr, held, _ := holding(t, Options{KeepAlive: time.Hour, WriteTimeout: time.Minute}, StreamOptions{Queue: 64 << 20})
		c := dialTo(t, addr)
		c.send(get)
		resp := c.head()
		h := testkit.Receive(t, "the stream", held)
		event, text := parts('x', 32<<20)
		done := make(chan error, 1)
		go func() { done <- h.WriteParts(event...) }()
		testkit.Eventually(t, "it waits", func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.writing && h.inFlight > 0
		})
		if err := h.Write([]byte("data: behind\n\n")); err != nil {
			t.Fatal(err)
		}
		if waits {
			testkit.Receive(t, "the end of WriteParts, unread", done)
		}
		want := ": open\n\n" + text + "data: behind\n\n"
		got := make([]byte, len(want))
		if n, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
			t.Errorf("%v: %d bytes of %d, %v", waits, n, len(want), err)
		}
	}
}

// A stream is broken off if there is no room for events that wait: within its queue, and within what all answers may hold.
func TestStreamWithoutRoom(t *testing.T) {
	t.Parallel()
	const size = 100 << 10
	for name, c := range map[string]struct {
		room, queue int
	}{"none": {1, 64 << 20}, "for two events": {2*size + 1, 64 << 20}, "in the queue": {0, 5 * size / 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, addr, held, closed := holding(t, Options{MaxAnswers: c.room, KeepAlive: time.Hour}, StreamOptions{Queue: c.queue})
			other := &part{owner: owner{principal: "other"}} // without a connection: it panics if it is to give way
			if !s.answers.add(other, 1) {
				t.Fatal("no room for one byte")
			}
			s.answers.moved(other, time.Now().Add(time.Hour))
			client := dialTo(t, addr)
			client.send(get)
			h := testkit.Receive(t, "the stream", held)
			event, most := []byte("data: "+strings.Repeat("x", size-8)+"\n\n"), 0
			var err error
			for n := 0; err == nil && n < 1000; n++ {
				err = h.Write(event)
				h.mu.Lock()
				most = max(most, len(h.queue)+h.inFlight)
				h.mu.Unlock()
			}
			if !errors.Is(err, ErrSlowReader) {
				t.Errorf("%v", err)
			}
			if err := testkit.Receive(t, "OnClose", closed); !errors.Is(err, ErrSlowReader) {
				t.Errorf("%v", err)
			}
			const frames = 1 << 10
			if bound := c.queue + frames; most > bound || c.room > 0 && most > c.room+frames {
				t.Errorf("%d bytes waited", most)
			}
			testkit.Eventually(t, "its room is free", func() bool { return s.AnswerStats().Bytes == 1 })
			if got := s.AnswerStats().Refused; got != 1 && c.room > 0 {
				t.Errorf("%d refused", got)
			}
		})
	}
}
