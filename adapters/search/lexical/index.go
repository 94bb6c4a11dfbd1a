// Package lexical finds tools by the words of their definitions, without a model.
//
// A score is BM25 over weighted fields (BM25F). Words are stems. A word of the query that is not in the index, or that is in few tools, stands for
// words that look like it as well, so that typos and names in one piece are found. Lengths of fields are compared with fixed ones, not with
// averages: what a tool scores does not depend on the order in which tools came, and an index after any changes is the same as one made anew.
package lexical

import (
	"sync"
)

// The fields of a document.
const (
	name = iota
	title
	description
	parameter
	parameterText
	value
	output
	category
	fields
)

// fieldNames are how results call the fields.
var fieldNames = [fields]string{"name", "title", "description", "parameter", "parameter description", "value", "output", "category"}

// Hit is a tool that was found.
type Hit struct {
	Server, Name string
	Score        float64
	Fields       []string // what matches, as "field: word", the best first
}

// Index holds documents. It is safe for concurrent use; a search waits for the change of one document at most.
type Index struct {
	mu      sync.RWMutex
	terms   map[string]int32 // place in words
	words   []*term
	docs    []*document // nil: removed
	at      map[key]int32
	dead    int
	grams   map[string][]int32 // words by three letters of theirs
	servers map[string]*server
}

type key struct{ server, name string }

// term is a word of the index.
type term struct {
	text     string
	live     int // documents that have it
	postings []posting
}

// posting is a document that has a word.
type posting struct {
	doc    int32
	impact float32 // what the word adds to the document's score, but for its rarity
}

// document is what is kept of a Document.
type document struct {
	key
	of     *server
	counts []count
}

// count is how often a word is in a field of a document.
type count struct {
	term  int32
	field uint8
	n     uint8
}

// server is what is known of the server of documents.
type server struct {
	text  string
	words map[int32]bool // of its text
	docs  int
}

// New returns an empty index.
func New() *Index {
	return &Index{terms: map[string]int32{}, at: map[key]int32{}, grams: map[string][]int32{}, servers: map[string]*server{}}
}

// Put adds documents, each in the place of the one of its server with its name.
func (x *Index) Put(docs ...Document) {
	for i := range docs {
		read := readDocument(&docs[i])
		x.mu.Lock()
		x.put(&docs[i], read)
		x.mu.Unlock()
	}
}

// Delete removes documents of a server; without names all of them.
func (x *Index) Delete(of string, names ...string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(names) == 0 {
		for k, id := range x.at {
			if k.server == of {
				x.remove(id)
			}
		}
	}
	for _, name := range names {
		if id, known := x.at[key{of, name}]; known {
			x.remove(id)
		}
	}
	x.compact()
}

// Len returns the number of documents.
func (x *Index) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.at)
}
