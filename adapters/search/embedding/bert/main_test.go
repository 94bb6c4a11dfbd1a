package bert

import (
	"testing"

	"go.uber.org/goleak"

	"dragoman/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Run(m) }

// The goroutines that share the work of a call end with it.
func TestNothingIsLeft(t *testing.T) {
	before := goleak.IgnoreCurrent()
	m := open(t, tiny(t, nil))
	if _, err := m.Embed(t.Context(), []string{"a ab", "a"}); err != nil {
		t.Fatal(err)
	}
	goleak.VerifyNone(t, before)
}
