package sqlite

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"dragoman/adapters/search/vectors"
	"dragoman/adapters/search/vectors/vectorstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, path string, space vectors.Space) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, space)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestStore(t *testing.T) {
	vectorstest.Store(t, func(t *testing.T) vectors.Store {
		return open(t, filepath.Join(t.TempDir(), "vectors.db"), vectorstest.Space)
	})
}

func TestKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vectors ?#%.db")
	var last *Store
	vectorstest.Kept(t, func(space vectors.Space) vectors.Store {
		if last != nil {
			if err := last.Close(); err != nil {
				t.Fatal(err)
			}
		}
		last = open(t, path, space)
		return last
	})
}

// A file that is no database, or has rows of another size than it says, is an error that says how to go on. What is not written is not found.
func TestBroken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vectors.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, vectorstest.Space); err == nil || !strings.Contains(err.Error(), "fix: remove the file") {
		t.Errorf("no database: %v", err)
	}
	path = filepath.Join(t.TempDir(), "vectors.db")
	s := open(t, path, vectorstest.Space)
	point := vectors.Point{Server: "a", Tool: "x", Vector: make([]float32, vectorstest.Dimension)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Put(ctx, []vectors.Point{point}); err == nil {
		t.Error("a write after the end of its context")
	}
	if sums, err := s.Sums(t.Context()); err != nil || len(sums) != 0 {
		t.Errorf("%v, %v", sums, err)
	}
	if err := s.Put(t.Context(), []vectors.Point{point}); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, change := range []string{"UPDATE tool_vectors SET vector = x'00'", "UPDATE tool_vectors SET vector = zeroblob(64), categories = 'x'"} {
		if _, err := db.Exec(change); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), path, vectorstest.Space); err == nil || !strings.Contains(err.Error(), "fix: remove the file") {
			t.Errorf("%s: %v", change, err)
		}
	}
}
