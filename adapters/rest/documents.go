package rest

import (
	"crypto/sha256"
	"encoding/base64"
	"sync"

	"dragoman/adapters/rest/catalog"
)

// document is what an endpoint answers for a list of tools, for as long as the list stays the same.
type document struct {
	body []byte
	tag  string // the ETag, quotes included (RFC 9110, 8.8.3)
}

// Bytes implements the values of a catalog.Sized.
func (d *document) Bytes() int { return len(d.body) }

// documentKey is all that a document depends on; the service's name is the same for all.
type documentKey struct {
	path, server string
	list         catalog.Sum
}

const maxDocuments = 128

// documents caches documents.
type documents struct {
	mu   sync.Mutex // held while one is built, which may take seconds: concurrent requests mostly want the same one
	kept *catalog.Sized[documentKey, *document]
}

// of returns the document at a path for a list; build makes it if it is not cached.
func (c *documents) of(path string, l *catalog.List, build func(l *catalog.List) ([]byte, error)) (*document, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := documentKey{path, l.Server, l.Sum}
	if d, ok := c.kept.Get(key); ok {
		return d, nil
	}
	body, err := build(l)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	d := &document{body, `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`}
	c.kept.Put(key, d)
	return d, nil
}
