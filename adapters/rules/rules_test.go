package rules

import (
	"slices"
	"strings"
	"testing"

	"dragoman/proxy/wire"
)

// Which revisions have what came within the legacy era (the revisions' changelogs).
func TestFeatures(t *testing.T) {
	for name, f := range map[string]struct {
		has  func(string) bool
		want string
	}{
		"batches":            {HasBatches, "2025-03-26"},
		"polling":            {CanPoll, "2025-11-25"},
		"structured content": {StructuredContent.In, "2025-11-25 2025-06-18"},
		"resource links":     {ResourceLinks.In, "2025-11-25 2025-06-18"},
		"audio":              {AudioContent.In, "2025-11-25 2025-06-18 2025-03-26"},
		"elicitation":        {Elicitation.In, "2025-11-25 2025-06-18"},
		"URL mode":           {URLMode.In, "2025-11-25"},
		"titled choices":     {TitledChoices.In, "2025-11-25"},
		"sampling tools":     {SamplingTools.In, "2025-11-25"},
	} {
		got := slices.DeleteFunc(slices.Clone(legacyVersions), func(v string) bool { return !f.has(v) })
		if strings.Join(got, " ") != f.want {
			t.Errorf("%s: %v, want %s", name, got, f.want)
		}
	}
}

// Only requests of methods without effects may be sent twice.
func TestReadsOnly(t *testing.T) {
	for raw, want := range map[string]bool{
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`:     true,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read"}`: true,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`:     false,
		`{"jsonrpc":"2.0","id":1,"method":"initialize"}`:     false,
		`{"jsonrpc":"2.0","method":"ping"}`:                  false,
		`{"jsonrpc":"2.0","id":1,"result":{}}`:               false,
	} {
		m, err := wire.Scan([]byte(raw))
		if err != nil {
			t.Fatal(raw, err)
		}
		if got := ReadsOnly(&m); got != want {
			t.Errorf("%s: %v", raw, got)
		}
	}
}

// A client is told a revision that its transport has and that it asked for or a newer one.
func TestTold(t *testing.T) {
	for _, c := range []struct {
		requested, settled, transport, want string
		older                               bool
	}{
		{"2025-11-25", "2025-11-25", "streamable-http", "2025-11-25", false},
		{"2025-11-25", "2025-03-26", "streamable-http", "2025-03-26", false}, // the client decides
		{"2025-11-25", "2024-11-05", "streamable-http", "2025-11-25", false},
		{"2025-06-18", "2024-11-05", "streamable-http", "2025-06-18", false},
		{"2025-03-26", "2024-11-05", "streamable-http", "2025-03-26", false},
		{"2024-11-05", "2024-11-05", "streamable-http", "2024-11-05", false}, // it asked for it
		{"2026-07-28", "2024-11-05", "streamable-http", "2025-11-25", false},
		{"soon", "2024-11-05", "streamable-http", "2025-11-25", false},
		{"", "2024-11-05", "streamable-http", "2025-11-25", false},
		{"2025-11-25", "2024-11-05", "sse", "2024-11-05", false},
		{"2025-11-25", "2024-11-05", "stdio", "2024-11-05", false},
		{"2024-11-05", "2025-11-25", "sse", "2024-11-05", true},
		{"2024-11-05", "2025-03-26", "stdio", "2024-11-05", true},
		{"2025-03-26", "2025-06-18", "streamable-http", "2025-03-26", true},
		{"2024-11-05", "2025-06-18", "streamable-http", "2025-06-18", false},
		{"2024-10-07", "2025-06-18", "sse", "2025-06-18", false}, // none that Dragoman speaks
		{"2025-03-26", "2030-01-01", "sse", "2030-01-01", false},
		{"2025-03-26", "", "sse", "", false},
	} {
		if got, older := Told(c.requested, c.settled, c.transport); got != c.want || older != c.older {
			t.Errorf("%s, %s over %s: %s, %v; want %s, %v", c.requested, c.settled, c.transport, got, older, c.want, c.older)
		}
	}
}
