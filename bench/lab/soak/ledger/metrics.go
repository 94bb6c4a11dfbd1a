package ledger

import (
	"fmt"
	"strconv"
	"strings"
)

// AddMetrics adds Dragoman's own figures to the reading. text is the answer of /metrics. It fails if a required figure is missing.
func (r *Reading) AddMetrics(text string) error {
	sums := map[string]float64{}
	for line := range strings.Lines(text) {
		name, value, ok := sample(strings.TrimSpace(line))
		if ok {
			sums[name] += value
		}
	}
	for _, name := range []string{"go_goroutines", "dragoman_sessions"} {
		if _, ok := sums[name]; !ok {
			return fmt.Errorf("ledger: the metrics have no %s", name)
		}
	}
	r.Goroutines = int(sums["go_goroutines"])
	r.Sessions = int(sums["dragoman_sessions"])
	r.Pooled = int(sums["dragoman_upstream_sessions"])
	r.Leases = int(sums["dragoman_upstream_leases"])
	r.Parked = int(sums["dragoman_calls_parked"])
	r.InFlight = int(sums["dragoman_requests_in_flight"])
	r.Listens = int(sums["dragoman_listens"] + sums["dragoman_watches"])
	r.LargeLines = int(sums["dragoman_large_lines"])
	r.Streams = int(sums["dragoman_streams_resumable"])
	r.Starts = int(sums["dragoman_upstream_starts_total"])
	r.Crashes = int(sums["dragoman_upstream_crashes_total"])
	r.Heap = int64(sums["go_memstats_heap_inuse_bytes"])
	return nil
}

// sample parses a line of the Prometheus text format: NAME{LABELS} VALUE. Labels are ignored, so that the samples of one name add up.
func sample(line string) (name string, value float64, ok bool) {
	if line == "" || line[0] == '#' {
		return "", 0, false
	}
	at := strings.LastIndexByte(line, ' ')
	if at < 0 {
		return "", 0, false
	}
	value, err := strconv.ParseFloat(line[at+1:], 64)
	name, _, _ = strings.Cut(line[:at], "{")
	return strings.TrimSpace(name), value, err == nil
}
