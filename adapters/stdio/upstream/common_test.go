package upstream

import (
	"testing"
	"time"
)

func TestSampler(t *testing.T) {
	now := time.Unix(1000, 0)
	s := &Sampler{}
	told, skipped := 0, 0
	say := func(lines int) {
		for range lines {
			if tell, n := s.Take(now); tell {
				told++
				skipped += n
			}
		}
	}
	say(100)
	if told != noiseFirst || skipped != 0 {
		t.Errorf("%d told, %d skipped", told, skipped)
	}
	now = now.Add(59 * time.Second)
	say(5)
	now = now.Add(time.Second)
	say(10)
	if told != noiseFirst+1 || skipped != 100 {
		t.Errorf("%d told, %d skipped", told, skipped)
	}
	now = now.Add(time.Minute)
	say(1)
	if told != noiseFirst+2 || skipped != 109 {
		t.Errorf("%d told, %d skipped", told, skipped)
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", 1234567 * time.Nanosecond: "1ms", 12345 * time.Millisecond: "12.3s", time.Minute: "1m",
		90 * time.Second: "1m30s", time.Hour: "1h", 90 * time.Minute: "1h30m", 10 * time.Minute: "10m"} {
		if got := Duration(d); got != want {
			t.Errorf("%v: %s", d, got)
		}
	}
}
