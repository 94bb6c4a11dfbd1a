package app

import (
	"dragoman/internal/config"
	"testing"
)

// The heap is given back when much of it lies about and little is asked for, and once only if that is of no use.
func TestKeepLean(t *testing.T) {
	freed := 0
	h := heap{free: func() { freed++ }}
	f := func(asked, spare uint64, want int) {
		t.Helper()
		if h.look(asked, spare); freed != want {
			t.Errorf("asked %d MiB, spare %d MiB: freed %d times, want %d", asked/config.Mib, spare/config.Mib, freed, want)
		}
	}
	f(500*config.Mib, 300*config.Mib, 0) // busy
	f(501*config.Mib, 10*config.Mib, 0)
	f(502*config.Mib, 31*config.Mib, 0)
	f(503*config.Mib, 300*config.Mib, 1)
	h.floor = 290 * config.Mib           // it was of no use
	f(604*config.Mib, 300*config.Mib, 1) // busy again
	f(605*config.Mib, 300*config.Mib, 2) // the second time
	h.floor = 290 * config.Mib
	f(606*config.Mib, 300*config.Mib, 2)
	f(607*config.Mib, 322*config.Mib, 3)
	f(608*config.Mib, 1*config.Mib, 4)
	f(609*config.Mib, 30*config.Mib, 4)
	h.floor = 1 * config.Mib
	f(609*config.Mib, 1*config.Mib+511*config.Kib, 4) // it hardly works, and there is nothing to give
	f(609*config.Mib, 1*config.Mib+512*config.Kib, 5)
	h.floor = 2 * config.Mib
	f(609*config.Mib, 2*config.Mib, 6) // the second time
	h.floor = 2 * config.Mib
	f(609*config.Mib, 2*config.Mib+511*config.Kib, 6)
	f(611*config.Mib, 30*config.Mib, 6) // it works a little
	f(612*config.Mib-1, 30*config.Mib, 7)
	keepLean()()
}
