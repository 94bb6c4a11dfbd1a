package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"dragoman/proxy/wire"
)

// Target is one server that exchanges can go to.
type Target struct {
	Name     string
	Upstream Upstream
}

// Table is one immutable state of the routes.
type Table struct {
	targets map[string]*Target
	only    *Target // if there is no other
}

// NewTable makes a table; later targets of one name replace earlier ones.
func NewTable(targets ...*Target) *Table {
	t := &Table{targets: make(map[string]*Target, len(targets))}
	for _, target := range targets {
		t.targets[target.Name] = target
	}
	if len(t.targets) == 1 {
		t.only = targets[len(targets)-1]
	}
	return t
}

// Find returns the target of a server name; the empty name finds the only target. below is the part of the path after the name, for
// the error.
func (t *Table) Find(server, below string) (*Target, *Error) {
	if server == "" && t.only != nil {
		return t.only, nil
	}
	if target, ok := t.targets[server]; ok {
		return target, nil
	}
	sorted := slices.Sorted(maps.Keys(t.targets))
	names := strings.Join(sorted, ", ")
	err := Errf(ServerUnknown, "no server %q is configured; there is %s", server, names)
	if server == "" {
		err = Errf(ServerUnknown, "several servers are configured; name one in the path: /servers/NAME/%s with NAME one of %s", below, names)
	}
	err.Data = fmt.Appendf(nil, `{"code":%q,"retryable":%t,"servers":[`, err.Name, err.Retryable)
	for i, name := range sorted {
		if i > 0 {
			err.Data = append(err.Data, ',')
		}
		err.Data = wire.AppendText(err.Data, name)
	}
	err.Data = append(err.Data, "]}"...)
	return nil, err
}

// CutServer returns the server that the path of a request names, and the rest of the path, from the slash after the name: /servers/a/mcp
// is a and /mcp. A path that names none is the rest. The path is taken as it was sent: no name has a character that is escaped, so an
// escaped one is another name.
func CutServer(path string) (name, rest string) {
	below, ok := strings.CutPrefix(path, "/servers/")
	if !ok {
		return "", path
	}
	if name, _, _ = strings.Cut(below, "/"); name == "" {
		return "", path
	}
	return name, below[len(name):]
}

// Router passes exchanges to the target of the current table.
type Router struct{ table atomic.Pointer[Table] }

// NewRouter makes a router with its first table.
func NewRouter(t *Table) *Router {
	r := &Router{}
	r.table.Store(t)
	return r
}

// Swap sets a new table. Running exchanges keep theirs.
func (r *Router) Swap(t *Table) { r.table.Store(t) }

// Refuse returns the error of Do for a server name that leads to no target, or nil. below is the part of the path after the name.
func (r *Router) Refuse(server, below string) *Error {
	_, err := r.table.Load().Find(server, below)
	return err
}

// ErrRetired is the error of a Target that another one has replaced, before it has done anything. Clients see it only if the other one is
// gone as well.
var ErrRetired = Errf(ShuttingDown, "the configuration of this server has changed meanwhile; try again")

// Do is the Handler at the end of the chain. A cancelled exchange goes to no server.
func (r *Router) Do(ex *Exchange) (Replies, error) {
	for {
		if cause := ex.Err(); cause != nil {
			return nil, cause
		}
		table := r.table.Load()
		target, err := table.Find(ex.Server, ex.Endpoint())
		if err != nil {
			return nil, err
		}
		ex.Target = target.Name
		replies, derr := target.Upstream.Do(ex)
		if errors.Is(derr, ErrRetired) && r.table.Load() != table {
			continue
		}
		return replies, derr
	}
}

// Endpoint is the path by which the client asks, below /servers/NAME/ where that names a server.
func (ex *Exchange) Endpoint() string { return cmp.Or(ex.Below, "mcp") }
