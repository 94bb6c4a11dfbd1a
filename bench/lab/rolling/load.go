package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// load has clients of every kind that send requests all the time.
type load struct {
	front   string
	cancel  context.CancelFunc
	clients sync.WaitGroup
	kinds   []kind

	mu      sync.Mutex
	counts  map[string]*count
	failed  []string // failures, at most keptFailures
	wrong   int
	stepped time.Time // when an instance was last stopped or killed
	forgive bool      // an instance was killed: lost requests are counted, not recorded
}

// kind is one kind of client. The function of make sends the client's next request, and keeps its state.
type kind struct {
	name string
	make func(l *load, c *http.Client, name string) func(ctx context.Context, n int) error
}

type count struct {
	done      int
	recovered int // lost sessions that were opened again, as the specification requires
}

const keptFailures = 20

func newLoad(front string, each int) *load {
	l := &load{front: "http://" + front, counts: map[string]*count{}}
	for range each {
		l.kinds = append(l.kinds, kind{"modern", modern}, kind{"modern, slow", modernSlow}, kind{"REST", restful}, kind{"legacy", legacy}, kind{"listen", listens})
	}
	return l
}

func (l *load) begin(ctx context.Context) {
	ctx, l.cancel = context.WithCancel(ctx)
	for i, k := range l.kinds {
		l.counts[k.name] = &count{}
		l.clients.Go(func() {
			transport := &http.Transport{MaxIdleConnsPerHost: 2}
			defer transport.CloseIdleConnections()
			do := k.make(l, &http.Client{Transport: transport}, fmt.Sprintf("%s %d", k.name, i))
			for n := 1; ctx.Err() == nil; n++ {
				err := do(ctx, n)
				switch {
				case ctx.Err() != nil:
				case err != nil:
					l.fail(fmt.Sprintf("%s %d, request %d: %v", k.name, i, n, err))
					time.Sleep(50 * time.Millisecond) // a refused client does not retry at once
				default:
					l.mu.Lock()
					l.counts[k.name].done++
					l.mu.Unlock()
				}
			}
		})
	}
}

func (l *load) end() {
	l.cancel()
	l.clients.Wait()
}

func (l *load) fail(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong++
	if !l.forgive && len(l.failed) < keptFailures {
		l.failed = append(l.failed, fmt.Sprintf("%s, %s after the last step: %s", time.Now().Format("15:04:05.000"), time.Since(l.stepped).Round(time.Millisecond), what))
	}
}

// setForgiving sets whether failures are expected because an instance was killed.
func (l *load) setForgiving(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgive = on
}

// step records that an instance is stopped or killed.
func (l *load) step() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stepped = time.Now()
}

func (l *load) recovered(kind string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[kind].recovered++
}

func (l *load) failures() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wrong
}

func (l *load) first() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.failed, "\n  ")
}

// snapshot returns how many requests of each kind are done.
func (l *load) snapshot() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]int{}
	for name, c := range l.counts {
		all[name] = c.done
	}
	return all
}

// more waits until each kind of client has got some more answers.
func (l *load) more(ctx context.Context) error {
	before := l.snapshot()
	return until(ctx, "clients of every kind go on", func() bool {
		for name, n := range l.snapshot() {
			if name != "listen" && n < before[name]+10 {
				return false
			}
		}
		return true
	})
}

func (l *load) warm(ctx context.Context) error { return l.more(ctx) }

// tally describes what was done.
func (l *load) tally() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var parts []string
	for name, c := range l.counts {
		text := fmt.Sprintf("%s %d", name, c.done)
		if c.recovered > 0 {
			text += fmt.Sprintf(" (%d sessions opened again)", c.recovered)
		}
		parts = append(parts, text)
	}
	slices.Sort(parts)
	return fmt.Sprintf("%s; %d failed", strings.Join(parts, ", "), l.wrong)
}
