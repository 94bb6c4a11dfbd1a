package faults

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// row holds the outcome of a case with a provider.
type row struct {
	mu     sync.Mutex
	texts  map[string]bool // errors
	delays []time.Duration // from the report of the connection's end to the client's error
	notes  []string
}

// failed notes the error of a call.
func (r *row) failed(o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.texts == nil {
		r.texts = map[string]bool{}
	}
	r.texts["`"+o.Code+"`: "+stable(o.Message)] = true
}

func (r *row) delayed(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delays = append(r.delays, d)
}

func (r *row) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// providerCase is a fault of a provider or of the way to it.
type providerCase struct {
	name, what, outcome string
	try                 func(t *testing.T, r *row)
}

func providerCases() []providerCase {
	return []providerCase{
		{"killed", "SIGKILL in mid stream", "lost, ran once; calls succeed when it runs again", killed},
		{"reset", "the connection is reset in mid stream", "lost, ran once; the next call succeeds", resetStream},
		{"replaced", "SIGKILL with 8 calls of a tool with `readOnlyHint` under way; another process serves at the address", "answered, all repeated there", replaced},
		{"GOAWAY", "connections of a second's age get GOAWAY; 8 callers, and a call of 3.5 s", "answered, each ran once", goAway},
		{"stopped", "SIGTERM, upon which it says GOAWAY and lets calls end; another process serves at the address; 8 callers", "answered, each ran once", stopped(false)},
		{"drained", "the same, and its health service says before that it does not serve", "answered, each ran once", stopped(true)},
		{"stalled", "SIGSTOP, upon which it reads nothing; 16 calls with 1 MiB of arguments", "time-out after 4 s; other servers answer", stalled},
		{"slow clients", "16 clients read nothing of 6 GiB of progress each; 20 ms of latency; `limits.answer_bytes` of 16 MiB", "given up one after the other, and cancelled at the provider; calls beside them are answered on the same connection; memory is bounded", slowClients},
		{"oversized", "a message of 2 MiB, or content of 1.6 MiB in four, with `limits.response_body` of 1 MiB", "refused; other calls on the connection are answered", oversized},
		{"half-open", "nothing arrives in either direction; `grpc.keepalive` 10 s, `grpc.keepalive_timeout` 1 s", "lost within 11 s", halfOpen},
		{"certificates", "the provider's, Dragoman's own, and then their authority are replaced (`ca_file` by a file with both, then with the new one); 4 callers, and a call that outlasts it all", "answered, each ran once", certificates},
		{"address dies", "SIGKILL at one of two addresses (`dns:`), where it runs again later; 8 callers of a tool with `readOnlyHint`", "answered, some repeated", addressDies},
		{"address stops", "SIGTERM at one of two addresses; 8 callers, and 2 longer calls", "answered, each ran once", addressStops},
		{"addresses change", "SIGKILL at both addresses, and the name has another", "the next", addressesChange},
		{"providers.yaml", "another address in the file; 8 callers, and a call that outlasts it", "answered, each ran once; new ones at the new address", providersChange},
	}
}

// providers are the rows of the cases with providers.
type providers map[string]*row

func (b providers) run(t *testing.T) {
	for _, c := range providerCases() {
		r := &row{}
		b[c.name] = r
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.try(t, r)
			r.judge(t)
		})
	}
}

// judge checks the delays. A busy machine may delay one try; of three that follow each other one must be prompt.
func (r *row) judge(t *testing.T) {
	t.Helper()
	for i := 0; i+3 <= len(r.delays); i++ {
		if least := slices.Min(r.delays[i : i+3]); least > prompt {
			t.Errorf("the client has its error %s after the end of the connection", least)
		}
	}
	if len(r.delays) > 0 {
		t.Logf("the client has its error after the end of the connection: median %s, maximum %s of %d", r.median(), slices.Max(r.delays), len(r.delays))
	}
}

func (r *row) median() time.Duration {
	all := slices.Sorted(slices.Values(r.delays))
	return all[len(all)/2]
}

const providersPreface = `
## Providers

The same table for faults of a gRPC provider that is a process of its own, and of the way to it, with clients of 2026-07-28. "Lost" calls have had an effect,
or may have had one, so that they are not repeated. The run has checked that every call ended once, with what the table says, that each ran as
often as that says, that Dragoman exits without an error, and that a client has its error within 100 ms of the end of the connection, as it is
seen between Dragoman and the provider.

| fault | | calls | error after the connection's end: median, maximum |
|---|---|---|---|
`

func (b providers) markdown() string {
	var out strings.Builder
	out.WriteString(providersPreface)
	messages := map[string]bool{}
	for _, c := range providerCases() {
		r := b[c.name]
		delay := ""
		if len(r.delays) > 0 {
			delay = fmt.Sprintf("%.1f ms, %.1f ms of %d", ms(r.median()), ms(slices.Max(r.delays)), len(r.delays))
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", c.name, c.what, strings.Join(append([]string{c.outcome}, r.notes...), "; "), delay)
		maps.Copy(messages, r.texts)
	}
	out.WriteString("\nThe errors:\n\n")
	for _, m := range slices.Sorted(maps.Keys(messages)) {
		fmt.Fprintf(&out, "- %s\n", m)
	}
	return out.String()
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
