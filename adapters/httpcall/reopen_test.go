package httpcall

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"dragoman/adapters/eventstream"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/proxy"
)

// Each attempt waits longer than the one before, ten in a row are enough, and an event begins the row anew.
func TestReopeningEnds(t *testing.T) {
	asked := 0
	c := new(Call)
	c.state, c.Reopen = streaming, func(context.Context, []byte) (httpclient.Response, error) {
		asked++
		return httpclient.Response{}, &httpclient.DialError{Addr: "x", Err: errors.New("no")}
	}
	c.ex = new(proxy.Exchange)
	c.note(&eventstream.Event{ID: []byte("1"), HasID: true, Retry: 200})
	if err := c.interrupted(io.EOF); err != nil {
		t.Fatal(err)
	}
	var waits []time.Duration
	var err error
	for err == nil {
		waits = append(waits, time.Until(c.again.at).Round(100*time.Millisecond))
		c.again.at = time.Now()
		err = c.reopen(time.Time{})
	}
	var lost *proxy.Error
	if !errors.As(err, &lost) || lost.Name != proxy.Lost.Name || asked != reopenings {
		t.Errorf("%v after %d", err, asked)
	}
	want := []time.Duration{2, 4, 8, 16, 32, 64, 128, 256, 300, 300}
	for i := range want {
		if len(waits) != len(want) || waits[i] != want[i]*100*time.Millisecond {
			t.Fatalf("waits %v", waits)
		}
	}
	c.again.tries = reopenings
	if c.note(&eventstream.Event{ID: []byte("1"), HasID: true, Retry: -1}); c.again.tries == 0 {
		t.Error("the same event again counts as a new one")
	}
	if c.note(&eventstream.Event{ID: []byte("2"), HasID: true, Retry: -1}); c.again.tries != 0 {
		t.Error("a new event does not count")
	}
}

// Where there is no such thing as going on, an end is an end.
func TestNoReopening(t *testing.T) {
	c := new(Call)
	c.state = streaming
	c.ex = new(proxy.Exchange)
	c.note(&eventstream.Event{ID: []byte("1"), HasID: true, Retry: 100})
	if err := c.interrupted(io.EOF); err == nil || !strings.Contains(err.Error(), "ended without a response") {
		t.Error(err)
	}
	c.Reopen = func(context.Context, []byte) (httpclient.Response, error) { return httpclient.Response{}, nil }
	c.note(&eventstream.Event{ID: []byte("1"), HasID: true, Retry: 100})
	if err := c.interrupted(&eventstream.LimitError{Limit: 1}); err == nil {
		t.Error("a stream over the limit goes on")
	}
}

func TestMarkWait(t *testing.T) {
	for retry, want := range map[int]time.Duration{-1: time.Second, 0: retryLeast, 500: 500 * time.Millisecond, 1 << 30: retryMost} {
		var k Mark
		k.Note(&eventstream.Event{Retry: retry})
		if got := k.Wait(time.Second); got != want {
			t.Errorf("retry %d: %v, want %v", retry, got, want)
		}
	}
}
