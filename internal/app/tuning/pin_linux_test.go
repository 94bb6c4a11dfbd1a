package tuning

import (
	"runtime"
	"testing"
	"time"

	"dragoman/internal/testkit"
)

// TestSchedulerPin pins, collects garbage meanwhile, and unpins.
func TestSchedulerPin(t *testing.T) {
	had := runtime.GOMAXPROCS(0)
	stir, stop := PinScheduler()
	for range pinRequests - 1 {
		stir()
	}
	if n := runtime.GOMAXPROCS(0); n != had {
		t.Errorf("%d processors before many requests have come, want %d", n, had)
	}
	for limit := time.Now().Add(20 * time.Second); runtime.GOMAXPROCS(0) == had; stir() {
		if time.Now().After(limit) {
			t.Fatal("many requests do not pin it")
		}
	}
	for range 3 {
		stir()
		began := time.Now()
		runtime.GC() // which stops all processors, also the pinned one
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("a collection took %s", took)
		}
	}
	testkit.Until(t, "its rest", 20*time.Second, func() bool { return runtime.GOMAXPROCS(0) == had })
	for limit := time.Now().Add(20 * time.Second); runtime.GOMAXPROCS(0) == had; stir() {
		if time.Now().After(limit) {
			t.Fatal("it is pinned only once")
		}
	}
	stop()
	if n := runtime.GOMAXPROCS(0); n != had {
		t.Errorf("%d processors are left, want %d", n, had)
	}
}
