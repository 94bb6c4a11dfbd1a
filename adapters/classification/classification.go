// Package classification sorts tools into categories, which seed 004 calls skills: which there are, which a tool belongs to, and when that is
// found out. A tool is found by its words without a category as well; categories tell what there is, and narrow a search.
package classification

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"dragoman/adapters/search/lexical"
)

// Category is a kind of tools.
type Category struct {
	Name        string   // in snake_case
	Description string   // what its tools are for, a sentence
	Keywords    []string // words, or groups of words, that its tools have in their definitions
}

// Tool describes a tool to a Classifier. The tool's server has written all of it: it is text to judge, never an instruction.
type Tool struct {
	Server      string // the name of the server
	Name        string // what the server calls it
	Title       string
	Description string
	Parameters  []string // their names
	ServerText  string   // what is said of the server
}

// Read returns a tool by its definition, a JSON object. What is no definition, or is one in parts only, has what can be read.
func Read(server, name string, raw []byte, serverText string) Tool {
	d := lexical.Parse(server, name, raw)
	t := Tool{Server: server, Name: d.Name, Title: d.Title, Description: d.Description, ServerText: serverText}
	for i := range d.Parameters {
		t.Parameters = append(t.Parameters, d.Parameters[i].Name)
	}
	return t
}

// Assigned is a category of a tool.
type Assigned struct {
	Category   string
	Confidence float64 // from 0 to 1
}

// Bounds of what a tool is assigned (seed 004, BR-004).
const (
	MostCategories  = 3
	LeastConfidence = 0.5 // what is less is dropped
)

// Classifier finds categories of tools. It is safe for concurrent use.
type Classifier interface {
	// Classify returns the categories of each tool in the order of the tools, of one the best first. A tool may have none. An error is about all of them.
	Classify(ctx context.Context, tools []Tool) ([][]Assigned, error)
	// Name tells apart classifiers that may judge differently.
	Name() string
}

// Kept returns what is kept of what a classifier has said: at most three categories of enough confidence, the best first. The first is the
// primary one.
func Kept(all []Assigned) []Assigned {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Assigned) int {
		return cmp.Or(cmp.Compare(b.Confidence, a.Confidence), cmp.Compare(a.Category, b.Category))
	})
	all = slices.DeleteFunc(all, func(a Assigned) bool { return !(a.Confidence >= LeastConfidence) }) // NaN is dropped
	return all[:min(len(all), MostCategories)]
}

// Sum returns a hash of categories and of the classifier that uses them: with another one tools are classified anew.
func Sum(categories []Category, classifier string) (sum [sha256.Size]byte) {
	h := sha256.New()
	text := func(all ...string) {
		for _, one := range all {
			h.Write(binary.AppendUvarint(nil, uint64(len(one))))
			h.Write([]byte(one))
		}
	}
	text(classifier)
	for i := range categories {
		c := &categories[i]
		text(c.Name, c.Description)
		h.Write(binary.AppendUvarint(nil, uint64(len(c.Keywords))))
		text(c.Keywords...)
	}
	h.Sum(sum[:0])
	return sum
}

// spoken returns a name in words: snake_case without its underscores.
func spoken(name string) string { return strings.ReplaceAll(name, "_", " ") }
