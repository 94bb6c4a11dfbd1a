// Package watch sees what a load does to the processes under test: the time they get of the processors, their memory, files and
// threads, and what a Go program tells of its allocations. It knows nothing of what the load is.
package watch

import (
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrNotHere is for what can be read on Linux only.
var ErrNotHere = errors.New("watch: the figures of processes are read on Linux only")

// Use holds the resources of processes at a moment; those that were named and their descendants are apart.
type Use struct {
	Own, Children         time.Duration // of the processors, user and system, until now; to 10 ms
	RSS, ChildrenRSS      int64         // bytes in memory
	Files, Threads, Below int           // open files and threads of their own; how many descendants there are
}

// Sample is a Use at a time since the first.
type Sample struct {
	At time.Duration
	Use
}

// Watch looks at processes once a second until it is stopped.
type Watch struct {
	pids []int
	stop chan struct{}
	done sync.WaitGroup

	mu      sync.Mutex
	begin   time.Time
	samples []Sample
	failed  error
}

// Bounds of a watch.
const (
	every      = time.Second
	maxSamples = 100_000
	// MaxPIDs limits the watched processes.
	MaxPIDs = 64
)

// Start begins to look. The error is for processes that cannot be looked at.
func Start(pids []int) (*Watch, error) {
	if len(pids) == 0 || len(pids) > MaxPIDs {
		return nil, errors.New("watch: no processes, or too many of them")
	}
	first, err := Read(pids)
	if err != nil {
		return nil, err
	}
	w := &Watch{pids: slices.Clone(pids), stop: make(chan struct{}), begin: time.Now(), samples: []Sample{{Use: first}}}
	w.done.Go(w.run)
	return w, nil
}

func (w *Watch) run() {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_, _ = w.Now() // the last word on it is Stop's
		case <-w.stop:
			return
		}
	}
}

// Now looks at once.
func (w *Watch) Now() (Use, error) {
	use, err := Read(w.pids)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.failed = err
		return use, err
	}
	if len(w.samples) < maxSamples {
		w.samples = append(w.samples, Sample{time.Since(w.begin), use})
	}
	return use, nil
}

// Stop ends the looking and gives all that was seen. The error says that processes have ended meanwhile.
func (w *Watch) Stop() ([]Sample, error) {
	close(w.stop)
	w.done.Wait()
	return w.samples, w.failed
}
