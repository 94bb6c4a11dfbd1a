package measure

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestValues(t *testing.T) {
	if got := Values([]int{3, 4}, func(n *int) float64 { return float64(*n) }); !slices.Equal(got, []float64{3, 4}) {
		t.Error(got)
	}
	if got := Micro(2 * time.Millisecond); got != 2000 {
		t.Error(got)
	}
}

func TestFileLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "info")
	if err := os.WriteFile(file, []byte("first\nmodel name\t: A: B\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"": "first", "model name": "A: B", "model": ""} {
		if got := FileLine(file, key); got != want {
			t.Errorf("%q: %q, want %q", key, got, want)
		}
	}
	if got := FileLine(file+".absent", ""); got != "" {
		t.Error(got)
	}
}
