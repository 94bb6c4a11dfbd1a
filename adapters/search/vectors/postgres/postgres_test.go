package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dragoman/adapters/search/vectors"
	"dragoman/adapters/search/vectors/vectorstest"
	"dragoman/internal/testkit"
	"dragoman/internal/testkit/database"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, url string, space vectors.Space) *Store {
	t.Helper()
	s, err := Open(t.Context(), url, space)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestStore(t *testing.T) {
	p := database.StartVector(t)
	vectorstest.Store(t, func(t *testing.T) vectors.Store { return open(t, p.Database(t), vectorstest.Space) })
	t.Run("kept", func(t *testing.T) {
		url := p.Database(t)
		vectorstest.Kept(t, func(space vectors.Space) vectors.Store { return open(t, url, space) })
	})
	t.Run("shared", func(t *testing.T) { shared(t, p.Database(t)) })
	t.Run("unused", func(t *testing.T) { unused(t, p.Database(t)) })
	t.Run("names", func(t *testing.T) { names(t, p.Database(t)) })
	t.Run("rights", func(t *testing.T) { rights(t, p.Database(t)) })
}

func point(server, tool string) vectors.Point {
	p := vectors.Point{Server: server, Tool: tool, Vector: make([]float32, vectorstest.Dimension)}
	p.Vector[0] = 1
	return p
}

func found(t *testing.T, s *Store) (all []string) {
	t.Helper()
	hits, err := s.Search(t.Context(), point("", "").Vector, vectors.Filter{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hits {
		all = append(all, h.Server+"/"+h.Tool)
	}
	return all
}

// Several Dragomans that begin at once share what each has put; one with another model has its own, and a server is removed from all.
func shared(t *testing.T, url string) {
	stores := []*Store{open(t, url, vectorstest.Space), open(t, url, vectorstest.Space), open(t, url, vectors.Space{Model: "other", Dimension: vectorstest.Dimension})}
	done := make(chan error, len(stores))
	for i, s := range stores {
		go func() { done <- s.Put(t.Context(), []vectors.Point{point("a", fmt.Sprint("t", i)), point("b", "t")}) }()
	}
	for range stores {
		if err := testkit.Receive(t, "a write", done); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"a/t0 a/t1 b/t", "a/t0 a/t1 b/t", "a/t2 b/t"} {
		if got := strings.Join(found(t, stores[i]), " "); got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
	if err := stores[0].RemoveServer(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	for i, s := range stores {
		if got := strings.Join(found(t, s), " "); got != "b/t" {
			t.Errorf("%d: %s", i, got)
		}
	}
}

// A table that nobody has used for long is removed, and made anew by whoever still has it open.
func unused(t *testing.T, url string) {
	old := open(t, url, vectors.Space{Model: "old", Dimension: vectorstest.Dimension})
	if err := old.Put(t.Context(), []vectors.Point{point("a", "t")}); err != nil {
		t.Fatal(err)
	}
	database.Exec(t, url, "UPDATE mcp.vector_spaces SET used_at = now() - interval '31 days'")
	if err := open(t, url, vectorstest.Space).Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := old.Sums(t.Context()); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("of a table that was removed: %v", err)
	}
	if got := found(t, old); len(got) != 0 {
		t.Errorf("made anew with %v", got)
	}
}

// Names that PostgreSQL does not take are left out, without an error for the others.
func names(t *testing.T, url string) {
	s := open(t, url, vectorstest.Space)
	odd := point("a", "ok")
	odd.Categories = []string{"x\x00", "y"}
	if err := errors.Join(s.Put(t.Context(), []vectors.Point{point("a", "t\x00"), point("\xff", "t"), odd}), s.SetCategories(t.Context(), "a", "t\x00", nil),
		s.RemoveTools(t.Context(), "a", []string{"t\x00"}), s.RemoveServer(t.Context(), "\xff")); err != nil {
		t.Fatal(err)
	}
	if hits, err := s.Search(t.Context(), odd.Vector, vectors.Filter{Servers: []string{"a", "\xff"}, Category: "y"}, 10); err != nil || len(hits) != 1 {
		t.Errorf("%v, %v", hits, err)
	}
	if hits, err := s.Search(t.Context(), odd.Vector, vectors.Filter{Category: "x\x00"}, 10); err != nil || len(hits) != 0 {
		t.Errorf("%v, %v", hits, err)
	}
}

// A user who may not make the extension is told what to do; once that is done, the same store works.
func rights(t *testing.T, url string) {
	database.Exec(t, url, `CREATE ROLE plain LOGIN PASSWORD 'hunter2'; GRANT ALL ON SCHEMA public TO plain; DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO plain', current_database()); END $$`)
	s := open(t, strings.Replace(url, "postgres@", "plain:hunter2@", 1), vectorstest.Space)
	if err := s.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "let a superuser say CREATE EXTENSION vector") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("without the right: %v", err)
	}
	database.Exec(t, url, "CREATE EXTENSION vector; UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'") // the package has no older one
	if err := s.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), `"0.7.4"; fix: install pgvector 0.8`) {
		t.Errorf("with an old extension: %v", err)
	}
	database.Exec(t, url, "UPDATE pg_extension SET extversion = '0.8.5' WHERE extname = 'vector'")
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("with the extension: %v", err)
	}
}

// A server without the extension is an error that says so.
func TestNoExtension(t *testing.T) {
	s := open(t, database.Start(t).Database(t), vectorstest.Space)
	if _, err := s.Sums(t.Context()); err == nil || !strings.Contains(err.Error(), "fix: install pgvector 0.8 or later at the server") {
		if err == nil { // this PostgreSQL happens to have it
			t.Skip("the extension is there")
		}
		t.Error(err)
	}
}

// While the database is away every call fails, and afterwards none does.
func TestAway(t *testing.T) {
	p := database.StartVector(t)
	s := open(t, p.Database(t), vectorstest.Space)
	if err := s.Put(t.Context(), []vectors.Point{point("a", "t")}); err != nil {
		t.Fatal(err)
	}
	p.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := s.Search(ctx, point("", "").Vector, vectors.Filter{}, 1); err == nil {
		t.Error("found in a database that is away")
	}
	p.Begin(t)
	testkit.Eventually(t, "the store works again", func() bool {
		hits, err := s.Search(t.Context(), point("", "").Vector, vectors.Filter{}, 1)
		return err == nil && len(hits) == 1
	})
	if _, err := Open(t.Context(), "postgres://u:hunter2@h:port/d", vectorstest.Space); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a wrong URL: %v", err)
	}
}

// random returns a vector of length one near one of 500 centres, as tools are near to others of their kind.
func random(r *rand.Rand, centres [][]float32) []float32 {
	v, sum := make([]float32, 384), 0.0
	centre := centres[r.IntN(len(centres))]
	for i := range v {
		v[i] = centre[i] + float32(r.NormFloat64())*.7
		sum += float64(v[i]) * float64(v[i])
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(sum))
	}
	return v
}

// BenchmarkSearch measures a search among 10,000 tools of 500 servers, and what of the exact result it finds.
func BenchmarkSearch(b *testing.B) {
	s := open(b, database.StartVector(b).Database(b), vectors.Space{Model: "m", Dimension: 384})
	memory, err := vectors.NewMemory(s.space)
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 6))
	centres := make([][]float32, 500)
	for i := range centres {
		centres[i] = make([]float32, 384)
		for j := range centres[i] {
			centres[i][j] = float32(r.NormFloat64())
		}
	}
	start := time.Now()
	for at := range 10 {
		points := make([]vectors.Point, 1000)
		for i := range points {
			n := at*1000 + i
			points[i] = vectors.Point{Server: fmt.Sprint("s", n%500), Tool: fmt.Sprint("t", n), Categories: []string{fmt.Sprint("c", n%20)}, Vector: random(r, centres)}
		}
		if err := errors.Join(s.Put(b.Context(), points), memory.Put(b.Context(), points)); err != nil {
			b.Fatal(err)
		}
	}
	b.Logf("10,000 points are stored in %v", time.Since(start))
	var half []string
	for i := range 250 {
		half = append(half, fmt.Sprint("s", i))
	}
	for _, c := range []struct {
		name   string
		filter vectors.Filter
	}{{"all", vectors.Filter{}}, {"half of the servers", vectors.Filter{Servers: half}}, {"three servers", vectors.Filter{Servers: half[:3]}}, {"a category", vectors.Filter{Category: "c3"}}} {
		b.Run(c.name, func(b *testing.B) {
			var times []time.Duration
			there, wanted := 0, 0
			for b.Loop() {
				q := random(r, centres)
				from := time.Now()
				hits, err := s.Search(b.Context(), q, c.filter, 50)
				times = append(times, time.Since(from))
				if err != nil {
					b.Fatal(err)
				}
				want, err := memory.Search(b.Context(), q, c.filter, 10)
				if err != nil {
					b.Fatal(err)
				}
				for _, h := range want {
					wanted++
					if slices.ContainsFunc(hits, func(one vectors.Hit) bool { return one.Server == h.Server && one.Tool == h.Tool }) {
						there++
					}
				}
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(times[len(times)*95/100].Microseconds())/1000, "p95-ms")
			b.ReportMetric(float64(there)/float64(max(wanted, 1)), "of-the-best-10")
		})
	}
	query, args := statement(s.table, random(r, centres), vectors.Filter{}, 50)
	rows, err := s.pool.Query(b.Context(), "EXPLAIN "+query, args...)
	if err != nil {
		b.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			b.Fatal(err)
		}
		b.Log(line[:min(len(line), 120)])
	}
}
