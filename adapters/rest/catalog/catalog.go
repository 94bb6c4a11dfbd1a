// Package catalog knows the tools of the servers for callers that do not list them first: it fetches and caches the lists, and
// checks calls and results against them.
package catalog

import (
	"strconv"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"dragoman/adapters/rest/mcpcall"
	"dragoman/adapters/rest/schema"
)

// Checker validates an instance against a JSON Schema, both raw JSON. The violation is nil if it is valid; an error says that
// the schema cannot be used. Notes lists what of a schema is not checked. *schema.Cache implements it.
type Checker interface {
	Check(schemaJSON, instance []byte) (*schema.Violation, error)
	Notes(schemaJSON []byte) ([]string, error)
}

// Options configure a Catalog.
type Options struct {
	Version string        // of every list; empty: the server's version, if it is semantic, else 0.0.0
	TTL     time.Duration // how long a list is used; 0: not beyond the requests that wait for it
	Now     func() time.Time

	Check         Checker // nil: nothing is checked
	SkipArguments bool    // with Check: arguments are not checked
	CheckResults  bool    // with Check: structured results are checked too
	Log           func(level, message string, err error)
}

// Catalog holds the lists of tools, one for each server and caller.
type Catalog struct {
	client *mcpcall.Client
	opt    Options
	lists  *listCache
	noted  *lru.Cache[note, struct{}]
}

// maxNoted bounds how many notes are remembered as logged.
const maxNoted = 4096

// New makes a Catalog that asks servers through client.
func New(client *mcpcall.Client, opt Options) (*Catalog, error) {
	c := &Catalog{client: client, opt: opt}
	var err error
	if c.lists, err = newListCache(); err != nil {
		return nil, err
	}
	c.noted, err = lru.New[note, struct{}](maxNoted)
	return c, err
}

// note is something that is logged once for a tool while its list stays the same.
type note struct {
	server, tool, what string
	list               Sum
}

// First reports whether something is noted of a tool for the first time since the list has changed.
func (c *Catalog) First(l *List, tool, what string) bool {
	had, _ := c.noted.ContainsOrAdd(note{l.Server, tool, what, l.Sum}, struct{}{})
	return !had
}

// maxNotes bounds the lines that are logged of one schema.
const maxNotes = 20

// Note logs what was left out of something, a line each.
func (c *Catalog) Note(level, what string, notes []string) {
	for i, text := range notes {
		if i == maxNotes {
			c.opt.Log(level, what+", and "+strconv.Itoa(len(notes)-i)+" more of that kind", nil)
			return
		}
		c.opt.Log(level, what+": "+text, nil)
	}
}
