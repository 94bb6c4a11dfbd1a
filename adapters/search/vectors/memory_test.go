package vectors_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"go.uber.org/goleak"

	"dragoman/adapters/search/vectors"
	"dragoman/adapters/search/vectors/vectorstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func memory(t testing.TB, space vectors.Space) *vectors.Memory {
	t.Helper()
	m, err := vectors.NewMemory(space)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func TestMemory(t *testing.T) {
	vectorstest.Store(t, func(t *testing.T) vectors.Store { return memory(t, vectorstest.Space) })
	for _, space := range []vectors.Space{{}, {Model: "m"}, {Dimension: 3}, {Model: "m", Dimension: -1}} {
		if _, err := vectors.NewMemory(space); err == nil {
			t.Errorf("%+v is taken", space)
		}
	}
}

// fill puts random points of count tools, 40 a server.
func fill(t testing.TB, m vectors.Store, dimension, count int) {
	t.Helper()
	random := rand.New(rand.NewPCG(3, 4))
	var batch []vectors.Point
	for i := range count {
		v := make([]float32, dimension)
		for j := range v {
			v[j] = float32(random.NormFloat64()) / 20
		}
		batch = append(batch, vectors.Point{Server: fmt.Sprint("server", i/40), Tool: fmt.Sprint("tool", i), Vector: v})
		if len(batch) == vectors.MaxBatch || i == count-1 {
			if err := m.Put(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
			batch = batch[:0]
		}
	}
}

// What is changed and removed many times is as if it had been put once, and takes no more memory: rows are given back.
func TestMemoryStaysSmall(t *testing.T) {
	const tools = 3000
	space := vectors.Space{Model: "m", Dimension: 8}
	m, want := memory(t, space), memory(t, space)
	for range 20 {
		fill(t, m, space.Dimension, 2*tools)
		for i := tools / 40; i < 2*tools/40; i++ {
			if err := m.RemoveServer(t.Context(), fmt.Sprint("server", i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(t, want, space.Dimension, tools)
	got, _ := m.Sums(t.Context())
	if sums, _ := want.Sums(t.Context()); !reflect.DeepEqual(got, sums) {
		t.Errorf("%d servers, want %d", len(got), len(sums))
	}
	for i := range 8 {
		q := make([]float32, 8)
		q[i] = 1
		for _, f := range []vectors.Filter{{}, {Servers: []string{"server3", "server70"}}} {
			got, err := m.Search(t.Context(), q, f, 50)
			if err != nil {
				t.Fatal(err)
			}
			if hits, _ := want.Search(t.Context(), q, f, 50); !reflect.DeepEqual(got, hits) || len(hits) != 50 {
				t.Errorf("%v\n%v", got, hits)
			}
		}
	}
	if rows := vectors.Rows(m); rows > 3*tools {
		t.Errorf("%d rows for %d tools", rows, tools)
	}
}

// A search allocates little, whatever the size of the store.
func TestMemoryAllocatesLittle(t *testing.T) {
	m := memory(t, vectors.Space{Model: "m", Dimension: 8})
	fill(t, m, 8, 10_000)
	q := make([]float32, 8)
	if n := testing.AllocsPerRun(20, func() {
		if hits, err := m.Search(t.Context(), q, vectors.Filter{}, 10); err != nil || len(hits) != 10 {
			t.Error(hits, err)
		}
	}); n > 60 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMemory(b *testing.B) {
	for _, count := range []int{200, 10_000, 100_000} {
		m := memory(b, vectors.Space{Model: "m", Dimension: 384})
		fill(b, m, 384, count)
		q := make([]float32, 384)
		for i := range q {
			q[i] = rand.Float32()/10 - .05
		}
		servers := make([]string, 0, count/80)
		for i := range count / 80 {
			servers = append(servers, fmt.Sprint("server", 2*i))
		}
		for name, f := range map[string]vectors.Filter{"all": {}, "half": {Servers: servers}} {
			b.Run(fmt.Sprint(count, "/", name), func(b *testing.B) {
				for b.Loop() {
					if hits, err := m.Search(b.Context(), q, f, 50); err != nil || len(hits) != 50 {
						b.Fatal(len(hits), err)
					}
				}
			})
		}
		b.Run(fmt.Sprint(count, "/put"), func(b *testing.B) {
			p := []vectors.Point{{Server: "server0", Tool: "tool0", Vector: q}}
			for b.Loop() {
				if err := m.Put(b.Context(), p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
