// Package lexical finds tools by the words of their definitions, without a model.
//
// A score is BM25 over weighted fields (BM25F). Words are stems. For a word of the query stand also the words of the index that look like it,
// so that typos and names in one piece are found. A query may name several things to do, so what fits one part of it well counts beside what
// fits all of it a little. The index scores the text of a server once, and adds that to all of its tools; so it does with categories.
//
// Lengths of fields are compared with fixed ones, not with averages: what a tool scores does not depend on the order in which tools came, and
// an index after any changes finds the same as one made anew.
package lexical

import (
	"maps"
	"slices"
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
	fields
)

// fieldNames are how results call the fields.
var fieldNames = [fields]string{"name", "title", "description", "parameter", "parameter description", "value", "output"}

// serverField is how results call what is said of the server.
const serverField = "server"

// categoryField is how results call the category that says most.
const categoryField = "category"

// Hit is a tool that was found.
type Hit struct {
	Server, Name string
	Score        float64
	Fields       []string // what matches, as "field: word", the best first; at most five
}

// Index holds documents. It is safe for concurrent use; a search waits for one document that is put, or for one removal.
type Index struct {
	mu           sync.RWMutex
	docs         []*document // nil: free
	serverOf     []int32     // place of the server of each document, -1 if it is free
	categoriesOf []places
	free         []int32 // places in docs

	terms     map[string]int32
	words     []*term // nil: free
	freeWords []int32
	grams     map[gram][]int32 // words by three letters of theirs

	servers     map[string]*server
	said        [][]int32 // words of what is said of each server, by place, sorted; replaced, never changed
	freeServers []int32

	categories *categories // replaced, never changed

	scratch sync.Pool
}

// term is a word of the index.
type term struct {
	text     string
	letters  int
	postings []posting // of documents, by place
	servers  []posting // of servers, by place
}

// posting is a document or a server that has a word.
type posting struct {
	at     int32
	impact float32 // what the word adds to the score, but for its rarity
}

// document holds what the index keeps of a Document.
type document struct {
	server, name string
	text         string  // what it says of its server
	counts       []count // by word
	categories   []string
}

// count says that a word is in a field of a document.
type count struct {
	term  int32
	field uint8
}

// server holds the text of a server, and its documents.
type server struct {
	name  string
	place int32
	at    map[string]int32 // its documents, by name
	texts map[string]int   // what they say of it, and how many do
	text  string           // the longest; of several the last in the order of letters
}

// New returns an empty index.
func New() *Index {
	return &Index{categories: &categories{}, terms: map[string]int32{}, grams: map[gram][]int32{}, servers: map[string]*server{},
		scratch: sync.Pool{New: func() any { return &scratch{} }}}
}

// Put adds documents, each in the place of the one of its server with its name. If documents of one server say different things of it, the
// longest text counts.
func (x *Index) Put(docs ...Document) {
	for i := range docs {
		words := readDocument(&docs[i])
		x.mu.Lock()
		x.put(&docs[i], words)
		x.mu.Unlock()
	}
}

// Delete removes documents of a server; without names all of them.
func (x *Index) Delete(of string, names ...string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.servers[of]
	if s == nil {
		return
	}
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(s.at))
	}
	ids := make([]int32, 0, len(names))
	for _, name := range names {
		if id, known := s.at[name]; known {
			ids = append(ids, id)
			delete(s.at, name)
		}
	}
	x.remove(s, ids)
}

// Len returns the number of documents.
func (x *Index) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.len()
}

func (x *Index) len() int { return len(x.docs) - len(x.free) }
