// Package loadtest accounts for events that tests send through queues to receivers that fail.
package loadtest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-json"

	"dragoman/adapters/events"
)

// Sources is how many sources the events have.
const Sources = 100

// Place returns the source and the number there of the nth event, as its source and its id have them.
func Place(n int) (source, id string) {
	return "urn:test:" + strconv.Itoa(n%Sources), strconv.Itoa(n / Sources)
}

// numbers is the inverse of Place, apart.
func numbers(e *events.Event) (of [2]int) {
	of[0], _ = strconv.Atoi(strings.TrimPrefix(e.Source, "urn:test:"))
	of[1], _ = strconv.Atoi(e.ID)
	return of
}

// Ledger records what a receiver has got. It is safe for concurrent use.
type Ledger struct {
	mu     sync.Mutex
	seen   map[[2]int]bool
	last   [Sources]int
	again  int // events that came twice
	astray error
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	l := &Ledger{seen: map[[2]int]bool{}}
	for i := range l.last {
		l.last[i] = -1
	}
	return l
}

// Take notes events. One that comes for the first time after a later one of its source is astray.
func (l *Ledger) Take(all ...*events.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range all {
		at := numbers(e)
		switch {
		case l.seen[at]:
			l.again++
			continue
		case at[1] <= l.last[at[0]]:
			l.astray = fmt.Errorf("%d of source %d came after %d", at[1], at[0], l.last[at[0]])
		}
		l.seen[at], l.last[at[0]] = true, at[1]
	}
}

// Receiver starts a webhook that fails half of the time: it answers 503, resets the connection, hangs, or is slow. Its ledger has
// the events that it takes. Receiver returns the URL.
func Receiver(t testing.TB, l *Ledger) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all, err := read(r.Body)
		if err != nil {
			return
		}
		switch n := rand.IntN(100); { //nolint:gosec // of a test
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
		l.Take(all...)
	}))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv.URL
}

// read returns the events of a body: one, or a batch.
func read(body io.Reader) ([]*events.Event, error) {
	raw, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	texts := []json.RawMessage{raw}
	if len(raw) > 0 && raw[0] == '[' {
		if err := json.Unmarshal(raw, &texts); err != nil {
			return nil, err
		}
	}
	all := make([]*events.Event, 0, len(texts))
	for _, text := range texts {
		e, err := events.Parse(text)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// Letters are the dead letters of a sink.
type Letters map[[2]int]bool

// ReadLetters returns the dead letters in a file, by their sinks.
func ReadLetters(t testing.TB, path string) map[string]Letters {
	t.Helper()
	file, err := os.Open(path) //nolint:gosec // of the test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	all := map[string]Letters{}
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
		if all[letter.Sink] == nil {
			all[letter.Sink] = Letters{}
		}
		all[letter.Sink][numbers(e)] = true
	}
	return all
}

// Counts holds a sink's own figures of its events.
type Counts struct{ Delivered, Dead, Lost, Retried int }

// Account compares what was emitted, the first count events, with what a receiver has got and what is a dead letter. Each is one or the other; a sink may
// count one as dead that has arrived, when the answer was lost.
func (l *Ledger) Account(t testing.TB, name string, count int, s Counts, letters Letters) {
	t.Helper()
	missing, both := 0, 0
	for n := range count {
		switch at := [2]int{n % Sources, n / Sources}; {
		case l.seen[at] && letters[at]:
			both++
		case !l.seen[at] && !letters[at]:
			missing++
		}
	}
	t.Logf("%s: %d delivered, %d of them again, %d dead letters, %d in both, %d attempts repeated", name, len(l.seen), l.again, len(letters), both, s.Retried)
	if missing > 0 || l.astray != nil || s.Lost > 0 || s.Delivered+s.Dead != count || len(letters) != s.Dead || len(l.seen) != s.Delivered+both {
		t.Errorf("%s: %d events are neither delivered nor dead letters, %d are both; %v; the sink says %+v of %d", name, missing, both, l.astray, s, count)
	}
	if len(l.seen) == 0 {
		t.Errorf("%s: nothing was delivered", name)
	}
}
