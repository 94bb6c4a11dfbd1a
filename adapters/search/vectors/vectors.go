// Package vectors stores the vectors of tools, and finds those nearest to that of a query. [Memory] is the store in the process; those of the
// sub-packages keep vectors over a restart, or outside the process. vectorstest tests that all do the same.
package vectors

import (
	"context"
	"fmt"
	"math"
)

// Limits of a store.
const (
	MaxHits  = 1000 // of one search
	MaxBatch = 1000 // points of one Put
)

// Space is what vectors have in common that may be compared. A store opened with another space than before begins empty.
type Space struct {
	Model     string // embedding.Model.Name
	Dimension int
}

// Check reports a space without a model or a dimension.
func (s Space) Check() error {
	if s.Model == "" || s.Dimension < 1 {
		return fmt.Errorf("vectors: the space of the model %q with %d dimensions is none", s.Model, s.Dimension)
	}
	return nil
}

// CheckPoints reports points that do not belong into the space, or that are too many.
func (s Space) CheckPoints(points []Point) error {
	if len(points) > MaxBatch {
		return fmt.Errorf("vectors: %d points at once, of at most %d", len(points), MaxBatch)
	}
	for i := range points {
		if err := s.CheckVector(points[i].Vector); err != nil {
			return err
		}
	}
	return nil
}

// CheckVector reports a vector of another dimension.
func (s Space) CheckVector(v []float32) error {
	if len(v) != s.Dimension {
		return fmt.Errorf("vectors: a vector of %d dimensions among those of %d", len(v), s.Dimension)
	}
	return nil
}

// Point is a tool with its vector.
type Point struct {
	Server, Tool string
	Sum          [32]byte // of the text that the vector was made from
	Categories   []string
	Vector       []float32 // of length one
}

// Stored describes a tool in a store.
type Stored struct {
	Sum        [32]byte // of the text that its vector was made from
	Categories []string // in the order in which they were stored
}

// Sums tell what a store has, by server and tool.
type Sums map[string]map[string]Stored

// Add adds a tool.
func (s Sums) Add(server, tool string, stored Stored) {
	if s[server] == nil {
		s[server] = map[string]Stored{}
	}
	s[server][tool] = stored
}

// Filter bounds a search, or what is averaged.
type Filter struct {
	Servers  []string // the tools of these only; nil: of all; empty: of none
	Category string   // tools of this only; empty: of all
}

// Hit is a tool that was found.
type Hit struct {
	Server, Tool string
	Score        float32 // the cosine of the angle between its vector and the query
}

// Searcher finds tools, and tells what they have in common.
type Searcher interface {
	// Search returns the most similar tools to a vector of length one, at most k and [MaxHits] of them, best first; of equal ones the first by
	// server and name.
	Search(ctx context.Context, vector []float32, filter Filter, k int) ([]Hit, error)
	// Mean returns the mean of the vectors of the tools that a filter lets through, brought to length one; nil: there are none, or their mean has
	// no direction. It reads all of these vectors.
	Mean(ctx context.Context, filter Filter) ([]float32, error)
}

// Direction brings a sum of vectors to length one, in 32 bits; nil: it has no direction.
func Direction(sum []float64) []float32 {
	square := 0.0
	for _, x := range sum {
		square += x * x
	}
	if !(square > 0) || math.IsInf(square, 0) { // NaN is not greater
		return nil
	}
	v, by := make([]float32, len(sum)), 1/math.Sqrt(square)
	for i, x := range sum {
		v[i] = float32(x * by)
	}
	return v
}

// Writer changes what is stored. A change that has returned is seen by the searches that begin later.
type Writer interface {
	// Sums returns what is stored, so that a text is embedded once, and its categories are set once. The caller may change the maps.
	Sums(ctx context.Context) (Sums, error)
	// Put adds points, or replaces those of the same tools: all, or none and an error. It does not keep the points.
	Put(ctx context.Context, points []Point) error
	// SetCategories replaces the categories of a tool. A tool that is not stored stays so.
	SetCategories(ctx context.Context, server, tool string, categories []string) error
}

// Remover removes what is stored.
type Remover interface {
	RemoveTools(ctx context.Context, server string, tools []string) error
	RemoveServer(ctx context.Context, server string) error
}

// Store holds the vectors of one [Space]. Its methods may be called from any goroutine. Who opens it closes it.
type Store interface {
	Searcher
	Writer
	Remover
}
