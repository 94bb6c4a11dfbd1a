package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-json"
)

// Allocs holds the allocations of a Go program since its start.
type Allocs struct {
	Objects, Bytes float64
}

const (
	maxMetrics   = 8 << 20
	metricsLimit = 10 * time.Second
)

// ReadAllocs reads the allocations of a Go program from a URL with Prometheus metrics, expvar (/debug/vars) or pprof
// (/debug/pprof/heap?debug=1).
func ReadAllocs(ctx context.Context, url string) (Allocs, error) {
	ctx, cancel := context.WithTimeout(ctx, metricsLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Allocs{}, fmt.Errorf("watch: %w", err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return Allocs{}, fmt.Errorf("watch: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxMetrics))
	if err != nil {
		return Allocs{}, fmt.Errorf("watch: metrics: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return Allocs{}, fmt.Errorf("watch: metrics: HTTP status %d", res.StatusCode)
	}
	return parseAllocs(string(text))
}

var errNoAllocs = errors.New("watch: no go_memstats_mallocs_total, no memstats.Mallocs and no # Mallocs among the metrics; fix: give the URL of a Go program's " +
	"/metrics, /debug/vars or /debug/pprof/heap?debug=1")

func parseAllocs(text string) (Allocs, error) {
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		var vars struct {
			Memstats *struct{ Mallocs, TotalAlloc float64 }
		}
		if err := json.Unmarshal([]byte(text), &vars); err != nil || vars.Memstats == nil {
			return Allocs{}, errNoAllocs
		}
		return Allocs{vars.Memstats.Mallocs, vars.Memstats.TotalAlloc}, nil
	}
	var a Allocs
	found := false
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "#" { // pprof's, at the end
			name, value, _ = strings.Cut(value, " = ")
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			continue
		}
		switch name {
		case "go_memstats_mallocs_total", "Mallocs":
			a.Objects, found = n, true
		case "go_memstats_alloc_bytes_total", "TotalAlloc":
			a.Bytes = n
		}
	}
	if !found {
		return a, errNoAllocs
	}
	return a, nil
}
