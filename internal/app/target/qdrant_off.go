//go:build !qdrant

package target

import (
	"errors"

	"dragoman/adapters/search/vectors"
)

const hasQdrant = false

func openQdrant(string, string, vectors.Space) (vectors.Store, error) {
	return nil, errors.ErrUnsupported // meaning has refused it
}
