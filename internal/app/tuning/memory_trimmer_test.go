package tuning

import (
	"testing"
	"time"

	"dragoman/internal/config/field"
)

// The heap is returned to the system when much of it is unused and little is allocated, and only once if that has no effect.
func TestMemoryTrimmer(t *testing.T) {
	freed, worked := 0, time.Duration(0) // since the last look
	h := memoryTrimmer{free: func() { freed++ }}
	f := func(asked, spare uint64, want int) {
		t.Helper()
		if h.look(asked, h.worked+worked, spare); freed != want {
			t.Errorf("allocated %d MiB, spare %d MiB: freed %d times, want %d", asked/field.Mib, spare/field.Mib, freed, want)
		}
	}
	f(500*field.Mib, 300*field.Mib, 0) // busy
	f(501*field.Mib, 10*field.Mib, 0)
	f(502*field.Mib, 31*field.Mib, 0)
	f(503*field.Mib, 300*field.Mib, 1)
	h.floor = 290 * field.Mib          // it had no effect
	f(604*field.Mib, 300*field.Mib, 1) // busy again
	f(605*field.Mib, 300*field.Mib, 2) // the second time
	h.floor = 290 * field.Mib
	f(606*field.Mib, 300*field.Mib, 2)
	f(607*field.Mib, 322*field.Mib, 3)
	f(608*field.Mib, 1*field.Mib, 4)
	f(609*field.Mib, 30*field.Mib, 4)
	h.floor = 1 * field.Mib
	f(609*field.Mib, 1*field.Mib+511*field.Kib, 4) // it is nearly idle, and there is nothing to return
	f(609*field.Mib, 1*field.Mib+512*field.Kib, 5)
	h.floor = 2 * field.Mib
	f(609*field.Mib, 2*field.Mib, 6) // the second time
	h.floor = 2 * field.Mib
	f(609*field.Mib, 2*field.Mib+511*field.Kib, 6)
	f(611*field.Mib, 30*field.Mib, 6) // it is a little busy
	f(612*field.Mib-1, 30*field.Mib, 7)
	h.floor, h.again, worked = 2*field.Mib, false, idleTime // it works, and hardly allocates
	f(612*field.Mib, 30*field.Mib, 7)
	f(612*field.Mib, 34*field.Mib, 8)
	h.floor, h.again, worked = 2*field.Mib, false, idleTime-1
	f(612*field.Mib, 30*field.Mib, 9)
	TrimMemory()()
}

// A process that has worked collects once more when it rests, and then not again: what died since is not known to be unused.
func TestMemoryTrimmerAtRest(t *testing.T) {
	freed := 0
	h := memoryTrimmer{free: func() { freed++ }}
	asked := uint64(0)
	look := func(since uint64, work time.Duration, want int) {
		t.Helper()
		h.floor = 4 * field.Mib
		asked += since
		if h.look(asked, h.worked+work, 4*field.Mib); freed != want {
			t.Errorf("allocated %d KiB in %v: freed %d times, want %d", since/field.Kib, work, freed, want)
		}
	}
	for _, busy := range []struct {
		since uint64
		work  time.Duration
	}{{idleCalm, 0}, {0, idleTime}, {trimCalm, idleTime}} {
		before := freed
		look(busy.since, busy.work, before)
		look(0, 0, before)
		look(busy.since, busy.work, before) // the rest was too short
		look(idleCalm-1, idleTime-1, before)
		look(0, 0, before+1)
		look(0, 0, before+2) // pools are empty only now
		look(0, 0, before+2)
		look(0, 0, before+2)
	}
}

// The processor time of the process grows with its work.
func TestProcessorTime(t *testing.T) {
	before := processorTime()
	for limit := time.Now().Add(20 * time.Second); processorTime()-before < 10*time.Millisecond; {
		if time.Now().After(limit) {
			t.Fatalf("%s before and %s after twenty seconds of work", before, processorTime())
		}
	}
}
