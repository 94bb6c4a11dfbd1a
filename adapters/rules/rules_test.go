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
