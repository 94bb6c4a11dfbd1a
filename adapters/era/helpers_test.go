package era

import (
	"testing"

	"dragoman/proxy/wire"
)

func scan(t *testing.T, raw string) *wire.Message {
	t.Helper()
	m, err := wire.Scan([]byte(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return &m
}

// written applies the edits and checks that the outcome is still a message.
func written(t *testing.T, m *wire.Message) string {
	t.Helper()
	out := m.Append(nil)
	if _, err := wire.Scan(out); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return string(out)
}
