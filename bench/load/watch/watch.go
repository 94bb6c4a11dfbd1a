// Package watch reads what a load does to the processes under test: their CPU time, memory, files and threads, and the allocations of a Go
// program. It knows nothing of the load.
package watch

import (
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrNotHere is the error of figures that exist on Linux only.
var ErrNotHere = errors.New("watch: the figures of processes are read on Linux only")

// Use holds the resources of processes at one time, those of the named processes and of their descendants.
type Use struct {
	Own, Children         time.Duration // CPU time, user and system, until now; to 10 ms
	RSS, ChildrenRSS      int64         // resident bytes
	Files, Threads, Below int           // open files and threads of the named processes; number of descendants
}

// Sample is a Use at a time since the first.
type Sample struct {
	At time.Duration
	Use
}

// Watch reads the resources of processes once a second until it is stopped.
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

// Start begins to read. It fails if a process cannot be read.
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
			_, _ = w.Now() // Stop reports the error
		case <-w.stop:
			return
		}
	}
}

// Now reads at once.
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

// Stop ends the reading and returns all samples. The error says that processes have ended meanwhile.
func (w *Watch) Stop() ([]Sample, error) {
	close(w.stop)
	w.done.Wait()
	return w.samples, w.failed
}
