// Package embedding turns texts into vectors whose distance follows the meaning of the texts. Its sub-packages are the models: bert runs one
// inside the process, and endpoint asks a service.
package embedding

import (
	"context"
	"errors"
	"math"
)

// MaxDimension bounds the dimension of vectors, which an index keeps in memory for each tool.
const MaxDimension = 8192

// Model turns texts into vectors of one dimension, of length one, so that the dot product of two is the cosine of their angle. Its methods may
// be called from any goroutine.
type Model interface {
	// Embed returns a vector for each text, in their order. It ends with ctx, and fails for all texts or for none.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
	// Name is the identity of the model: vectors of models with different names must not be compared. It is known before the first text.
	Name() string
}

// ErrNoDirection is the error of a vector that cannot be brought to length one.
var ErrNoDirection = errors.New("embedding: the model made a vector without a direction: all zero, or not of finite numbers")

// Normalise brings a vector to length one, in place. [ErrNoDirection]: it has none.
func Normalise(v []float32) error {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if !(sum > 0) || math.IsInf(sum, 0) { // NaN is not greater
		return ErrNoDirection
	}
	by := 1 / math.Sqrt(sum)
	for i, x := range v {
		v[i] = float32(float64(x) * by)
	}
	return nil
}
