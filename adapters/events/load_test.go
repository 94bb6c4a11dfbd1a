package events_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"dragoman/adapters/events"
	"dragoman/adapters/events/deadletter"
	stream "dragoman/adapters/events/jetstream"
	"dragoman/adapters/events/natstest"
	"dragoman/adapters/events/webhook"
	"dragoman/internal/testkit"
)

var (
	loadTime = flag.Duration("events-time", 3*time.Second, "how long TestLoad emits events")
	loadRate = flag.Int("events-rate", 500, "how many events TestLoad emits in a second")
)

// loadSources is how many sources the events of TestLoad have.
const loadSources = 100

// ledger records what a receiver has got: the numbers of each source, and the last of them.
type ledger struct {
	mu     sync.Mutex
	seen   [loadSources]map[int]bool
	last   [loadSources]int
	unique int
	again  int // events that came twice
	astray error
}

func newLedger() *ledger {
	l := &ledger{}
	for i := range l.seen {
		l.seen[i], l.last[i] = map[int]bool{}, -1
	}
	return l
}

// take notes events. One that comes for the first time after a later one of its source is astray.
func (l *ledger) take(all ...*events.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range all {
		source, n := place(e)
		switch {
		case l.seen[source][n]:
			l.again++
			continue
		case n <= l.last[source]:
			l.astray = fmt.Errorf("%d of source %d came after %d", n, source, l.last[source])
		}
		l.seen[source][n], l.last[source] = true, n
		l.unique++
	}
}

func place(e *events.Event) (source, n int) {
	source, _ = strconv.Atoi(strings.TrimPrefix(e.Source, "urn:test:"))
	n, _ = strconv.Atoi(e.ID)
	return source, n
}

// badReceiver is a webhook that fails half of the time: it answers 503, resets the connection, hangs, or is slow.
func badReceiver(t *testing.T, l *ledger) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var raw []json.RawMessage
		if len(body) > 0 && body[0] == '{' {
			raw = []json.RawMessage{body}
		} else if err == nil {
			err = json.Unmarshal(body, &raw)
		}
		all := make([]*events.Event, 0, len(raw))
		for _, text := range raw {
			e, perr := events.Parse(text)
			if perr != nil {
				err = perr
				break
			}
			all = append(all, e)
		}
		if err != nil {
			return
		}
		switch n := rand.IntN(100); {
		case n < 38:
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case n < 48:
			conn, _, _ := w.(http.Hijacker).Hijack()
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
			return
		case n < 50:
			<-r.Context().Done()
			return
		case n < 55:
			select {
			case <-time.After(50 * time.Millisecond):
			case <-r.Context().Done():
				return
			}
		}
		l.take(all...)
	}))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv.URL
}

// Each event that is accepted is delivered or in the file of dead letters, and what is delivered has the order of its source, while receivers fail half of
// the time and NATS restarts. Queues stay within their bounds. `make events` runs a minute at 5,000 a second.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "dead.jsonl")
	dead, err := deadletter.Open(deadletter.Options{Path: path, Bytes: 1 << 30, Queue: 16 << 20, Failed: func(err error, lost uint64) { t.Errorf("%v: %d lost", err, lost) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dead.Close)
	srv := natstest.Start(t, nil)
	kept := srv.Stream(t, "events.>")
	const bound = 4 << 20
	queues, ledgers := map[string]*events.Queue{}, map[string]*ledger{"batched": newLedger(), "single": newLedger(), "nats": newLedger()}
	queue := func(name string, sink events.Sink, batch int) {
		queues[name] = events.NewQueue(events.QueueOptions{Name: name, Sink: sink, Dead: dead, Bytes: bound, Attempts: 10, Timeout: 500 * time.Millisecond, Backoff: 10 * time.Millisecond,
			GiveUp: time.Minute, AtATime: 64, Batch: batch})
	}
	hook := func(name, mode string) events.Sink {
		s, err := webhook.New(webhook.Options{URL: badReceiver(t, ledgers[name]), Mode: mode, Secret: []byte(strings.Repeat("k", 32)), Timeout: 2 * time.Second, AtATime: 64, Agent: "dragoman"})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	queue("batched", hook("batched", webhook.Batched), 100)
	queue("single", hook("single", webhook.Structured), 1)
	queue("nats", stream.New(stream.Options{URLs: []string{srv.URL()}, Subject: "events.{type}", Timeout: 2 * time.Second}), 1)
	settings := &events.Settings{Source: "urn:test", Types: []string{"*"}}
	for _, q := range queues {
		settings.Routes = append(settings.Routes, events.Route{Types: []string{"*"}, Queue: q})
	}
	var e events.Emitter
	e.Set(settings)
	count, slowest, heap, deepest := emitLoad(t, &e, queues, srv)
	began := time.Now()
	for _, q := range queues {
		testkit.Until(t, "the queues are empty", 2*time.Minute, func() bool { return q.Stats().Queued == 0 })
		q.Close()
	}
	dead.Close()
	readStream(t, kept, ledgers["nats"])
	letters := readLetters(t, path)
	accepted, _, refused := e.Stats()
	t.Logf("%d events emitted, %d accepted, %d refused, the slowest in %s; queues empty %s later; %d MiB of heap at most", count, accepted, refused, slowest, time.Since(began).Round(time.Millisecond), heap>>20)
	if refused != 0 || accepted != uint64(count) {
		t.Errorf("%d of %d accepted", accepted, count)
	}
	if slowest > time.Second { // a call does not wait for a receiver
		t.Errorf("an event took %s to be accepted", slowest)
	}
	for name, q := range queues {
		account(t, name, q.Stats(), ledgers[name], letters[name], count, deepest[name], bound)
	}
}

// account compares what was emitted with what a receiver has got and what is a dead letter.
func account(t *testing.T, name string, s events.QueueStats, l *ledger, letters map[[2]int]bool, count, deepest, bound int) {
	t.Helper()
	missing := 0
	for n := range count {
		if source, own := n%loadSources, n/loadSources; !l.seen[source][own] && !letters[[2]int{source, own}] {
			missing++
		}
	}
	t.Logf("%s: %d delivered, %d of them again, %d dead letters, %d attempts repeated, queue of %d KiB at most", name, l.unique, l.again, len(letters), s.Retried, deepest>>10)
	if missing > 0 || l.astray != nil || s.Lost > 0 || int(s.Delivered)+int(s.Dead) != count {
		t.Errorf("%s: %d events are neither delivered nor dead letters; %v; %+v", name, missing, l.astray, s)
	}
	if deepest > bound+events.MaxSize {
		t.Errorf("%s: the queue had %d bytes, and its bound is %d", name, deepest, bound)
	}
	if l.unique == 0 {
		t.Errorf("%s: nothing was delivered", name)
	}
}

// emitLoad emits events at the rate, and restarts NATS three times meanwhile.
func emitLoad(t *testing.T, e *events.Emitter, queues map[string]*events.Queue, srv *natstest.Server) (count int, slowest time.Duration, heap uint64, deepest map[string]int) {
	t.Helper()
	const ticks = 100 // in a second
	deepest = map[string]int{}
	tick := time.NewTicker(time.Second / ticks)
	defer tick.Stop()
	restarts := make(chan struct{})
	go func() {
		defer close(restarts)
		for range 3 {
			<-time.After(*loadTime / 5)
			srv.Down()
			<-time.After(min(*loadTime/20, 2*time.Second))
			srv.Up(t)
		}
	}()
	began := time.Now()
	for time.Since(began) < *loadTime {
		<-tick.C
		for want := int(time.Since(began).Seconds() * float64(*loadRate)); count < want; count++ {
			now := time.Now()
			if err := e.Emit(event(strconv.Itoa(count%loadSources), count/loadSources)); err != nil {
				t.Fatal(err)
			}
			slowest = max(slowest, time.Since(now))
		}
		for name, q := range queues {
			deepest[name] = max(deepest[name], q.Stats().Bytes)
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		heap = max(heap, m.HeapInuse)
	}
	<-restarts
	return count, slowest, heap, deepest
}

// readStream reads all messages of a stream in their order.
func readStream(t *testing.T, s jetstream.Stream, l *ledger) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var info *jetstream.StreamInfo
	testkit.Eventually(t, "the stream is there", func() (is bool) {
		var err error
		info, err = s.Info(ctx)
		return err == nil
	})
	if info.State.Msgs == 0 {
		return
	}
	c, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	messages, err := c.Messages()
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Stop()
	for range info.State.Msgs {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		e, err := events.Parse(m.Data())
		if err != nil {
			t.Fatal(err)
		}
		l.take(e)
	}
}

// readLetters returns the dead letters of each sink.
func readLetters(t *testing.T, path string) map[string]map[[2]int]bool {
	t.Helper()
	all := map[string]map[[2]int]bool{"batched": {}, "single": {}, "nats": {}}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for d := json.NewDecoder(file); d.More(); {
		var letter struct {
			Sink  string
			Event json.RawMessage
		}
		if err := d.Decode(&letter); err != nil {
			t.Fatal(err)
		}
		e, err := events.Parse(letter.Event)
		if err != nil {
			t.Fatal(err)
		}
		source, n := place(e)
		all[letter.Sink][[2]int{source, n}] = true
	}
	return all
}
