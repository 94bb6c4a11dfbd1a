// Package vectorstest tests that stores of vectors do the same.
package vectorstest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"

	"dragoman/adapters/search/vectors"
)

// Dimension is that of the vectors of the tests.
const Dimension = 16

// Space is the space of the tests.
var Space = vectors.Space{Model: "test@1", Dimension: Dimension}

// Store tests a store. open returns one that is empty, of Space.
func Store(t *testing.T, open func(t *testing.T) vectors.Store) {
	for name, test := range map[string]func(*testing.T, vectors.Store){
		"nothing": nothing, "nearest": nearest, "filters": filters, "again": again, "categories": categories, "mean": mean, "removal": removal, "exact": exact,
		"names": names, "refused": refused, "context": ended, "at once": atOnce,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// Kept tests that a store keeps what it has. open opens the store of a space; the former is closed by then.
func Kept(t *testing.T, open func(vectors.Space) vectors.Store) {
	s := open(Space)
	put(t, s, point("a", "x", 0), point("a", "y", 1), point("b", "x", 2, "files"))
	must(t, s.SetCategories(t.Context(), "a", "y", []string{"mail", "files"}))
	must(t, s.RemoveTools(t.Context(), "a", []string{"x"}))
	s = open(Space)
	kept, err := s.Sums(t.Context())
	must(t, err)
	stored(t, kept, vectors.Sums{"a": {"y": {Sum: point("", "", 1).Sum, Categories: []string{"mail", "files"}}}, "b": {"x": {Sum: point("", "", 2).Sum, Categories: []string{"files"}}}})
	expect(t, s, axis(1), vectors.Filter{}, "a/y", "b/x")
	expect(t, s, axis(1), vectors.Filter{Category: "files"}, "a/y", "b/x")
	expect(t, s, axis(1), vectors.Filter{Category: "mail"}, "a/y")
	for _, other := range []vectors.Space{{Model: "test@2", Dimension: Dimension}, {Model: Space.Model, Dimension: Dimension / 2}} {
		s = open(other)
		if got, err := s.Sums(t.Context()); err != nil || len(got) != 0 {
			t.Errorf("%v has %v, %v, of another", other, got, err)
		}
		p := point("c", "z", 3)
		p.Vector = p.Vector[:other.Dimension]
		put(t, s, p)
		hits, err := s.Search(t.Context(), p.Vector, vectors.Filter{}, 10)
		if err != nil || len(hits) != 1 || hits[0].Server != "c" {
			t.Errorf("%v: %v, %v", other, hits, err)
		}
	}
}

// axis returns the unit vector of an axis.
func axis(i int) []float32 {
	v := make([]float32, Dimension)
	v[i] = 1
	return v
}

// between returns a vector of length one between two axes, at an angle to the first.
func between(i, j int, angle float64) []float32 {
	v := make([]float32, Dimension)
	v[i], v[j] = float32(math.Cos(angle)), float32(math.Sin(angle))
	return v
}

func point(server, tool string, along int, categories ...string) vectors.Point {
	return vectors.Point{Server: server, Tool: tool, Sum: [32]byte{byte(along + 1), 255, 0, 31: 7}, Categories: categories, Vector: axis(along)} //nolint:gosec // axes are few
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, s vectors.Writer, points ...vectors.Point) {
	t.Helper()
	must(t, s.Put(t.Context(), points))
}

// expect searches, and compares what is found, each server/tool, with what is wanted.
func expect(t *testing.T, s vectors.Searcher, vector []float32, f vectors.Filter, want ...string) {
	t.Helper()
	hits, err := s.Search(t.Context(), vector, f, 10)
	must(t, err)
	var got []string
	for _, h := range hits {
		got = append(got, h.Server+"/"+h.Tool)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v: found %v, want %v", f, got, want)
	}
}

func nothing(t *testing.T, s vectors.Store) {
	expect(t, s, axis(0), vectors.Filter{})
	if sums, err := s.Sums(t.Context()); err != nil || len(sums) != 0 {
		t.Errorf("%v, %v", sums, err)
	}
	must(t, s.Put(t.Context(), nil))
	must(t, s.SetCategories(t.Context(), "a", "x", []string{"files"}))
	must(t, s.RemoveTools(t.Context(), "a", []string{"x"}))
	must(t, s.RemoveServer(t.Context(), "a"))
	expect(t, s, axis(0), vectors.Filter{})
}

// The nearest come first, with the cosine, and equal ones by name.
func nearest(t *testing.T, s vectors.Store) {
	var points []vectors.Point
	for i, angle := range []float64{.5, .1, 1, math.Pi} {
		p := point("a", fmt.Sprint("t", i), 0)
		p.Vector = between(0, 1, angle)
		points = append(points, p)
	}
	put(t, s, append(points, point("b", "t", 2), point("a", "u", 2), point("a", "s", 2))...)
	expect(t, s, axis(0), vectors.Filter{}, "a/t1", "a/t0", "a/t2", "a/s", "a/u", "b/t", "a/t3")
	hits, err := s.Search(t.Context(), axis(0), vectors.Filter{}, 3)
	must(t, err)
	if len(hits) != 3 {
		t.Fatalf("%d of 3", len(hits))
	}
	for i, angle := range []float64{.1, .5, 1} {
		if math.Abs(float64(hits[i].Score)-math.Cos(angle)) > 1e-5 {
			t.Errorf("%v: the cosine is %v", hits[i], math.Cos(angle))
		}
	}
	for _, k := range []int{0, -1} {
		if hits, err := s.Search(t.Context(), axis(0), vectors.Filter{}, k); err != nil || len(hits) != 0 {
			t.Errorf("%d: %v, %v", k, hits, err)
		}
	}
	if hits, err := s.Search(t.Context(), axis(0), vectors.Filter{}, math.MaxInt); err != nil || len(hits) != 7 {
		t.Errorf("all: %v, %v", hits, err)
	}
}

// A search finds tools of the given servers and category only (seed 004, BR-007).
func filters(t *testing.T, s vectors.Store) {
	put(t, s, point("a", "x", 0, "files"), point("a", "y", 0, "mail", "files"), point("b", "x", 0, "mail"), point("c", "x", 0))
	expect(t, s, axis(0), vectors.Filter{}, "a/x", "a/y", "b/x", "c/x")
	expect(t, s, axis(0), vectors.Filter{Servers: []string{"c", "a", "nobody"}}, "a/x", "a/y", "c/x")
	expect(t, s, axis(0), vectors.Filter{Servers: []string{"nobody"}})
	expect(t, s, axis(0), vectors.Filter{Servers: []string{}})
	expect(t, s, axis(0), vectors.Filter{Category: "mail"}, "a/y", "b/x")
	expect(t, s, axis(0), vectors.Filter{Category: "files", Servers: []string{"a", "b"}}, "a/x", "a/y")
	expect(t, s, axis(0), vectors.Filter{Category: "Files"})
}

// A tool that is put again has only what it was put with last, also within one batch.
func again(t *testing.T, s vectors.Store) {
	put(t, s, point("a", "x", 0, "files"), point("a", "y", 1))
	put(t, s, point("a", "x", 2), point("a", "x", 3, "mail"))
	expect(t, s, axis(3), vectors.Filter{}, "a/x", "a/y")
	expect(t, s, axis(3), vectors.Filter{Category: "files"})
	expect(t, s, axis(3), vectors.Filter{Category: "mail"}, "a/x")
	sums, err := s.Sums(t.Context())
	must(t, err)
	stored(t, sums, vectors.Sums{"a": {"x": {Sum: point("", "", 3).Sum, Categories: []string{"mail"}}, "y": {Sum: point("", "", 1).Sum}}})
}

// stored compares what a store says it has with what is wanted. No categories are none, in whatever form.
func stored(t *testing.T, got, want vectors.Sums) {
	t.Helper()
	for _, sums := range []vectors.Sums{got, want} {
		for _, tools := range sums {
			for name, one := range tools {
				if len(one.Categories) == 0 {
					one.Categories = nil
					tools[name] = one
				}
			}
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("stored %v, want %v", got, want)
	}
}

func categories(t *testing.T, s vectors.Store) {
	put(t, s, point("a", "x", 0), point("a", "y", 0, "mail"), point("b", "x", 0, "mail"))
	must(t, s.SetCategories(t.Context(), "a", "x", []string{"files", "mail"}))
	expect(t, s, axis(0), vectors.Filter{Category: "mail"}, "a/x", "a/y", "b/x")
	must(t, s.SetCategories(t.Context(), "a", "y", nil))
	must(t, s.SetCategories(t.Context(), "nobody", "y", []string{"mail"}))
	expect(t, s, axis(0), vectors.Filter{Category: "mail"}, "a/x", "b/x")
	expect(t, s, axis(0), vectors.Filter{Category: "files"}, "a/x")
	expect(t, s, axis(0), vectors.Filter{}, "a/x", "a/y", "b/x")
	sums, err := s.Sums(t.Context())
	must(t, err)
	sum := point("", "", 0).Sum
	stored(t, sums, vectors.Sums{"a": {"x": {Sum: sum, Categories: []string{"files", "mail"}}, "y": {Sum: sum}}, "b": {"x": {Sum: sum, Categories: []string{"mail"}}}})
}

// The mean of vectors has the length one. It follows what is stored (seed 004, BR-004.7 and BR-008).
func mean(t *testing.T, s vectors.Store) {
	at := func(f vectors.Filter, want []float32) {
		t.Helper()
		got, err := s.Mean(t.Context(), f)
		must(t, err)
		if len(got) != len(want) {
			t.Fatalf("%+v: %v, want %v", f, got, want)
		}
		for i := range want {
			if math.Abs(float64(got[i]-want[i])) > 1e-5 {
				t.Errorf("%+v: %v, want %v", f, got, want)
				return
			}
		}
	}
	at(vectors.Filter{}, nil)
	put(t, s, point("a", "x", 0, "files"), point("a", "y", 1, "mail", "files"), point("b", "x", 1, "mail"), point("c", "x", 2))
	half, third := between(0, 1, math.Pi/4), between(0, 1, math.Atan(2))
	at(vectors.Filter{Category: "files"}, half)
	at(vectors.Filter{Category: "mail"}, axis(1))
	at(vectors.Filter{Servers: []string{"a", "b", "nobody"}}, third)
	at(vectors.Filter{Servers: []string{"a"}, Category: "mail"}, axis(1))
	for _, none := range []vectors.Filter{{Category: "nothing"}, {Servers: []string{}}, {Servers: []string{"nobody"}}, {Servers: []string{"c"}, Category: "files"}} {
		at(none, nil)
	}
	must(t, s.SetCategories(t.Context(), "c", "x", []string{"mail"}))
	at(vectors.Filter{Category: "mail"}, between(1, 2, math.Atan(.5)))
	opposite := point("d", "y", 3, "both ways")
	opposite.Vector[3] = -1
	put(t, s, point("d", "x", 3, "both ways"), opposite)
	at(vectors.Filter{Category: "both ways"}, nil) // they cancel each other out
	must(t, s.RemoveServer(t.Context(), "a"))
	at(vectors.Filter{Category: "files"}, nil)
	at(vectors.Filter{Category: "mail"}, between(1, 2, math.Pi/4))
}

// Of a server that is removed nothing stays, and of others everything (seed 004, BR-008).
func removal(t *testing.T, s vectors.Store) {
	put(t, s, point("a", "x", 0), point("a", "y", 0), point("a", "z", 0), point("b", "x", 0), point("c", "x", 0))
	must(t, s.RemoveTools(t.Context(), "a", []string{"x", "z", "nothing"}))
	must(t, s.RemoveTools(t.Context(), "b", nil))
	expect(t, s, axis(0), vectors.Filter{}, "a/y", "b/x", "c/x")
	must(t, s.RemoveServer(t.Context(), "b"))
	must(t, s.RemoveServer(t.Context(), "nobody"))
	expect(t, s, axis(0), vectors.Filter{}, "a/y", "c/x")
	sums, err := s.Sums(t.Context())
	must(t, err)
	if len(sums) != 2 || len(sums["a"]) != 1 || len(sums["c"]) != 1 {
		t.Errorf("%v", sums)
	}
	put(t, s, point("b", "new", 0))
	expect(t, s, axis(0), vectors.Filter{Servers: []string{"b"}}, "b/new")
}

// What is found among many is what a comparison with each finds.
func exact(t *testing.T, s vectors.Store) {
	const count = 600
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	vector := func() []float32 {
		v, sum := make([]float32, Dimension), 0.0
		for i := range v {
			v[i] = float32(random.NormFloat64())
			sum += float64(v[i]) * float64(v[i])
		}
		for i := range v {
			v[i] /= float32(math.Sqrt(sum))
		}
		return v
	}
	var points []vectors.Point
	for i := range count {
		points = append(points, vectors.Point{Server: fmt.Sprint("s", i%20), Tool: fmt.Sprint("t", i), Categories: []string{fmt.Sprint("c", i%7)}, Vector: vector()})
	}
	put(t, s, points...)
	for range 10 {
		q := vector()
		for _, f := range []vectors.Filter{{}, {Category: "c3"}, {Servers: []string{"s1", "s19"}}} {
			hits, err := s.Search(t.Context(), q, f, 20)
			must(t, err)
			best := float32(2)
			for i := range points {
				p := &points[i]
				if f.Category != "" && p.Categories[0] != f.Category || f.Servers != nil && p.Server != "s1" && p.Server != "s19" {
					continue
				}
				var dot float32
				for j := range q {
					dot += q[j] * p.Vector[j]
				}
				if len(hits) == 20 && dot > hits[19].Score+1e-4 && !has(hits, p) {
					t.Errorf("%+v: %s/%s of %v is not found, and one of %v is", f, p.Server, p.Tool, dot, hits[19].Score)
				}
			}
			for _, h := range hits {
				if h.Score > best+1e-5 {
					t.Errorf("%+v: %v after %v", f, h, best)
				}
				best = h.Score
			}
			if len(hits) != 20 {
				t.Errorf("%+v: %d hits", f, len(hits))
			}
		}
	}
}

func has(hits []vectors.Hit, p *vectors.Point) bool {
	for _, h := range hits {
		if h.Server == p.Server && h.Tool == p.Tool {
			return true
		}
	}
	return false
}

// Names are any text.
func names(t *testing.T, s vectors.Store) {
	all := []string{"x", "X", "x ", "é", "東京", `"`, `'; --`, `\`, "%", "a/b", "\u202e"}
	for _, server := range []string{"it's", "IT'S"} {
		for i, tool := range all {
			put(t, s, point(server, tool, i, tool))
		}
	}
	for i, tool := range all {
		expect(t, s, axis(i), vectors.Filter{Servers: []string{"it's"}, Category: tool}, "it's/"+tool)
	}
	must(t, s.RemoveTools(t.Context(), "it's", all[1:]))
	expect(t, s, axis(0), vectors.Filter{Servers: []string{"it's"}}, "it's/x")
}

// A vector of another dimension is refused, with all that it comes with.
func refused(t *testing.T, s vectors.Store) {
	wrong := point("a", "y", 1)
	wrong.Vector = wrong.Vector[:Dimension-1]
	if err := s.Put(t.Context(), []vectors.Point{point("a", "x", 0), wrong}); err == nil {
		t.Error("a shorter vector is taken")
	}
	if err := s.Put(t.Context(), make([]vectors.Point, vectors.MaxBatch+1)); err == nil {
		t.Error("a batch of any size is taken")
	}
	if _, err := s.Search(t.Context(), wrong.Vector, vectors.Filter{}, 1); err == nil {
		t.Error("a shorter vector is searched for")
	}
	expect(t, s, axis(0), vectors.Filter{})
}

// A search ends with its context.
func ended(t *testing.T, s vectors.Store) {
	put(t, s, point("a", "x", 0))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Search(ctx, axis(0), vectors.Filter{}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := s.Mean(ctx, vectors.Filter{}); !errors.Is(err, context.Canceled) {
		t.Errorf("the mean: %v", err)
	}
}

// Searches and changes at the same time see whole points.
func atOnce(t *testing.T, s vectors.Store) {
	var all sync.WaitGroup
	for w := range 3 {
		all.Go(func() {
			server := fmt.Sprint("s", w)
			for i := range 10 {
				if err := errors.Join(s.Put(t.Context(), []vectors.Point{point(server, "stays", 0, "files"), point(server, fmt.Sprint("t", i), 1)}),
					s.RemoveTools(t.Context(), server, []string{fmt.Sprint("t", i)})); err != nil {
					t.Error(err)
				}
			}
		})
		all.Go(func() {
			for range 10 {
				hits, err := s.Search(t.Context(), axis(0), vectors.Filter{Category: "files"}, 10)
				if err != nil {
					t.Error(err)
				}
				for _, h := range hits {
					if h.Tool != "stays" || h.Score < .999 {
						t.Errorf("%v", h)
					}
				}
			}
		})
	}
	all.Wait()
	expect(t, s, axis(0), vectors.Filter{}, "s0/stays", "s1/stays", "s2/stays")
}
