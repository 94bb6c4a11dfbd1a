package main

import "testing"

// The heap is given back when much of it lies about and little is asked for, and once only if that is of no use.
func TestKeepLean(t *testing.T) {
	freed := 0
	h := heap{free: func() { freed++ }}
	f := func(asked, spare uint64, want int) {
		t.Helper()
		if h.look(asked, spare); freed != want {
			t.Errorf("asked %d MiB, spare %d MiB: freed %d times, want %d", asked/mib, spare/mib, freed, want)
		}
	}
	f(500*mib, 300*mib, 0) // busy
	f(501*mib, 10*mib, 0)
	f(502*mib, 31*mib, 0)
	f(503*mib, 300*mib, 1)
	h.floor = 290 * mib    // it was of no use
	f(604*mib, 300*mib, 1) // busy again
	f(605*mib, 300*mib, 2) // the second time
	h.floor = 290 * mib
	f(606*mib, 300*mib, 2)
	f(607*mib, 322*mib, 3)
	f(608*mib, 1*mib, 4)
	f(609*mib, 30*mib, 4)
	h.floor = 1 * mib
	f(609*mib, 1*mib+511*kib, 4) // it hardly works, and there is nothing to give
	f(609*mib, 1*mib+512*kib, 5)
	h.floor = 2 * mib
	f(609*mib, 2*mib, 6) // the second time
	h.floor = 2 * mib
	f(609*mib, 2*mib+511*kib, 6)
	f(611*mib, 30*mib, 6) // it works a little
	f(612*mib-1, 30*mib, 7)
	keepLean()()
}
