package catalogue

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// Parts are the parts of a Server that a Change concerns: a bit for each Kind, Head and Health.
type Parts uint8

// Parts besides the lists.
const (
	Head   Parts = 1 << (iota + Kinds) // all but the lists and the status
	Health                             // the status
	memory                             // what is not stored: the presence

	lists Parts = 1<<Kinds - 1
)

// Change names a server and the parts of it that a Store must write.
type Change struct {
	Server  *Server
	Removed bool     // it is gone, with its lists and URIs
	Parts   Parts    // what has changed
	Owned   []string // URIs that belong to it from now on
}

// Stored is the content of a store.
type Stored struct {
	Servers []*Server
	Owners  map[string]string // by URI, the server's name
}

// Store keeps a catalogue.
type Store interface {
	Load(ctx context.Context) (Stored, error)
	// Save stores changes in their order: all, or none and an error.
	Save(ctx context.Context, changes []Change) error
	Close() error
}

// writer stores changes, one after the other, so that nobody waits for the store. Changes of one server that wait are one.
type writer struct {
	store  Store
	failed func(error)
	late   bool // the last attempt failed; owned by run

	mu      sync.Mutex
	waiting []Change
	flushes []chan error
	wake    chan struct{} // holds one
	done    chan struct{}
	stop    context.CancelFunc
}

func startWriter(store Store, failed func(error)) *writer {
	if failed == nil {
		failed = func(error) {}
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &writer{store: store, failed: failed, wake: make(chan struct{}, 1), done: make(chan struct{}), stop: stop}
	go w.run(ctx)
	return w
}

// run writes until close. It is owned by the writer.
func (w *writer) run(ctx context.Context) {
	defer close(w.done)
	for {
		var again <-chan time.Time
		if w.late {
			again = time.After(saveAgain)
		}
		select {
		case <-w.wake:
			w.save()
		case <-again:
			w.save()
		case <-ctx.Done():
			w.save()
			return
		}
	}
}

// saveAgain is the time after which changes that could not be stored are stored again.
const saveAgain = 5 * time.Second

// save stores the waiting changes. After a failure they wait for the next change, or for saveAgain.
func (w *writer) save() {
	w.mu.Lock()
	changes, flushes := w.waiting, w.flushes
	w.waiting, w.flushes = nil, nil
	w.mu.Unlock()
	var err error
	if len(changes) > 0 {
		err = w.store.Save(context.Background(), changes)
	}
	again := w.late
	w.late = err != nil
	if err != nil {
		w.mu.Lock()
		later := w.waiting
		w.waiting = changes
		w.merge(later)
		w.mu.Unlock()
		if !again {
			w.failed(err)
		}
	}
	for _, f := range flushes {
		f <- err
	}
}

func (w *writer) add(changes []Change) {
	w.mu.Lock()
	w.merge(changes)
	w.mu.Unlock()
	w.signal()
}

func (w *writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// merge adds changes to those that wait. The caller holds mu.
func (w *writer) merge(changes []Change) {
	for _, c := range changes {
		i := slices.IndexFunc(w.waiting, func(one Change) bool { return one.Server.ID == c.Server.ID })
		if i < 0 {
			w.waiting = append(w.waiting, c)
			continue
		}
		one := &w.waiting[i]
		if one.Removed && !c.Removed { // it is here again, with nothing of what was stored
			c.Parts |= Head | Health | lists
		}
		one.Server, one.Parts, one.Removed = c.Server, one.Parts|c.Parts, c.Removed
		one.Owned = slices.Concat(one.Owned, c.Owned)
	}
}

func (w *writer) flush(ctx context.Context) error {
	stored := make(chan error, 1)
	w.mu.Lock()
	w.flushes = append(w.flushes, stored)
	w.mu.Unlock()
	w.signal()
	select {
	case err := <-stored:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.done:
		return nil
	}
}

func (w *writer) close() {
	w.stop()
	<-w.done
}

// Adopt makes URIs belong to servers, by URI the server's name, as another Dragoman that shares the store has found first. Servers that are not
// in the catalogue get none.
func (c *Catalogue) Adopt(owners map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Snapshot()
	next := maps.Clone(c.owners)
	for uri, name := range owners {
		if now.Server(name) != nil {
			next[uri] = name
		}
	}
	c.owners = next
	c.publish(now.Servers, true)
}

// Restore stores the status of all servers again, for a store that may have lost it.
func (c *Catalogue) Restore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.Snapshot().Servers {
		c.write(Change{Server: s, Parts: Health})
	}
}
