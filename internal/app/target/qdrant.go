//go:build qdrant

package target

import (
	"dragoman/adapters/search/vectors"
	"dragoman/adapters/search/vectors/qdrant"
)

// hasQdrant reports whether the build has the client of Qdrant. The standard build has not: with it a start takes about a millisecond
// longer for everybody who uses no Qdrant. The compressed binary grows by 0.2 MB, since gRPC is part of every build.
const hasQdrant = true

func openQdrant(url, key string, space vectors.Space) (vectors.Store, error) {
	return qdrant.Open(qdrant.Options{URL: url, Key: key}, space)
}
