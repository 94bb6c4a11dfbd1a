// Package catalog knows the tools of the servers for callers that do not list them first: it fetches and caches the lists, and
// checks calls and results against them.
package catalog

import (
	"strconv"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"dragoman/adapters/rest/mcpcall"
	"dragoman/adapters/rest/schema"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Options configure a Catalog.
type Options struct {
	Version string        // of every list; empty: the server's version, if it is semantic, else 0.0.0
	TTL     time.Duration // how long a list is used; 0: not beyond the requests that wait for it

	Check         *schema.Cache // checks the arguments of calls; nil: nothing is checked
	SkipArguments bool          // with Check: arguments are not checked
	CheckResults  bool          // with Check: structured results are checked, too

	// Behind returns the servers behind the name of a server, or of several as one.
	Behind func(server string) (servers []string, several bool)

	// Refuse returns the error, already recorded, by which the access rules of ex.Target refuse a call of a tool that no
	// list has; nil if they do not. It may be nil.
	Refuse func(ex *proxy.Exchange) error

	Log func(level, message string, err error) // receives the faults and the omissions of schemas
	Now func() time.Time
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
func New(client *mcpcall.Client, opt Options) *Catalog {
	noted, _ := lru.New[note, struct{}](maxNoted) // fails only for sizes below 1
	return &Catalog{client: client, opt: opt, lists: newListCache(), noted: noted}
}

// note is a message that is logged once for a tool while its list stays the same.
type note struct {
	server, tool, what string
	list               Sum
}

// First reports whether what is new for a tool of this state of the list, and remembers it.
func (c *Catalog) First(l *List, tool, what string) bool {
	had, _ := c.noted.ContainsOrAdd(note{l.Server, tool, what, l.Sum}, struct{}{})
	return !had
}

// maxNotes bounds the lines that are logged of one schema.
const maxNotes = 20

// Note logs notes, one line each. what is their subject, with which each line begins.
func (c *Catalog) Note(level, what string, notes []string) {
	for i, text := range notes {
		if i == maxNotes {
			c.opt.Log(level, what+", and "+strconv.Itoa(len(notes)-i)+" more of that kind", nil)
			return
		}
		c.opt.Log(level, what+": "+wire.ShownText(text), nil)
	}
}
