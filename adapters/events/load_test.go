package events_test

import (
	"flag"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"dragoman/adapters/events"
	"dragoman/adapters/events/deadletter"
	stream "dragoman/adapters/events/jetstream"
	"dragoman/adapters/events/loadtest"
	"dragoman/adapters/events/natstest"
	"dragoman/adapters/events/webhook"
	"dragoman/internal/testkit"
)

var (
	loadTime = flag.Duration("events-time", 3*time.Second, "how long TestLoad emits events")
	loadRate = flag.Int("events-rate", 500, "how many events TestLoad emits in a second")
)

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
	queues, ledgers := map[string]*events.Queue{}, map[string]*loadtest.Ledger{"batched": loadtest.NewLedger(), "single": loadtest.NewLedger(), "nats": loadtest.NewLedger()}
	queue := func(name string, sink events.Sink, batch int) {
		queues[name] = events.NewQueue(events.QueueOptions{Name: name, Sink: sink, Dead: dead, Bytes: bound, Attempts: 10, Timeout: 500 * time.Millisecond, Backoff: 10 * time.Millisecond,
			GiveUp: time.Minute, AtATime: 64, Batch: batch})
	}
	hook := func(name, mode string) events.Sink {
		s, err := webhook.New(webhook.Options{URL: loadtest.Receiver(t, ledgers[name]), Mode: mode, Secret: []byte(strings.Repeat("k", 32)), Timeout: 2 * time.Second, AtATime: 64, Agent: "dragoman"})
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
	natstest.Read(t, kept, func(data []byte) {
		e, err := events.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		ledgers["nats"].Take(e)
	})
	letters := loadtest.ReadLetters(t, path)
	accepted, _, refused := e.Stats()
	t.Logf("%d events emitted, %d accepted, %d refused, the slowest in %s; queues empty %s later; %d MiB of heap at most", count, accepted, refused, slowest, time.Since(began).Round(time.Millisecond), heap>>20)
	if refused != 0 || accepted != uint64(count) {
		t.Errorf("%d of %d accepted", accepted, count)
	}
	if slowest > time.Second { // a call does not wait for a receiver
		t.Errorf("an event took %s to be accepted", slowest)
	}
	for name, q := range queues {
		s := q.Stats()
		ledgers[name].Account(t, name, count, loadtest.Counts{Delivered: int(s.Delivered), Dead: int(s.Dead), Lost: int(s.Lost), Retried: int(s.Retried)}, letters[name])
		t.Logf("%s: queue of %d KiB at most", name, deepest[name]>>10)
		if deepest[name] > bound+events.MaxSize {
			t.Errorf("%s: the queue had %d bytes, and its bound is %d", name, deepest[name], bound)
		}
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
			if err := e.Emit(numbered(count)); err != nil {
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

// numbered returns the nth event.
func numbered(n int) *events.Event {
	source, id := loadtest.Place(n)
	e := event("", n)
	e.Source, e.ID = source, id
	return e
}
