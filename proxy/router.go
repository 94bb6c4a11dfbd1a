package proxy

import (
	"cmp"
	"errors"
	"fmt"
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
	unnamed *Target // of requests that name no server; nil: there is none
}

// NewTable makes a table; later targets of one name replace earlier ones. unnamed is the target of requests that name no server: one of
// the targets, or another one that stands for several; nil: they are refused.
func NewTable(unnamed *Target, targets ...*Target) *Table {
	t := &Table{targets: make(map[string]*Target, len(targets)), unnamed: unnamed}
	for _, target := range targets {
		t.targets[target.Name] = target
	}
	return t
}

// Find returns the target of a server name.
func (t *Table) Find(server string) (*Target, *Error) {
	if server == "" && t.unnamed != nil {
		return t.unnamed, nil
	}
	if target, ok := t.targets[server]; ok {
		return target, nil
	}
	group, isGroup := strings.CutPrefix(server, groupPrefix)
	var sorted []string
	for name := range t.targets {
		if other, is := strings.CutPrefix(name, groupPrefix); is == isGroup {
			sorted = append(sorted, other)
		}
	}
	slices.Sort(sorted)
	names := strings.Join(sorted, ", ")
	err := Errf(ServerUnknown, "no server %q is configured; there is %s", server, cmp.Or(names, "none"))
	switch {
	case isGroup:
		err = Errf(ServerUnknown, "no group %q is configured; there is %s", group, cmp.Or(names, "none"))
	case server == "" && names == "":
		err = Errf(ServerUnknown, "there is no server yet: none is configured or registered")
	case server == "":
		err = Errf(ServerUnknown, "this path is of no server; name one: /servers/NAME/mcp with NAME one of %s", names)
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

// groupPrefix begins the name of a group of servers, where a server is named. No server has such a name.
const groupPrefix = "groups/"

// GroupTarget returns the name that a group of servers has where a server is named.
func GroupTarget(group string) string { return groupPrefix + group }

// CutServer returns the server that the path of a request names, and the rest of the path, from the slash after the name: /servers/a/mcp
// is a and /mcp, /groups/a/mcp is groups/a and /mcp. A path that names none is the rest. The path is taken as it was sent: no name has a
// character that is escaped, so an escaped one is another name.
func CutServer(path string) (name, rest string) {
	prefix := ""
	below, ok := strings.CutPrefix(path, "/servers/")
	if !ok {
		if below, ok = strings.CutPrefix(path, "/"+groupPrefix); !ok {
			return "", path
		}
		prefix = groupPrefix
	}
	if name, _, _ = strings.Cut(below, "/"); name == "" {
		return "", path
	}
	return prefix + name, below[len(name):]
}

// ServerPath returns what the paths of a server, or of a group, begin with; empty for the empty name. It is the reverse of CutServer.
func ServerPath(server string) string {
	switch {
	case server == "":
		return ""
	case strings.HasPrefix(server, groupPrefix):
		return "/" + server
	}
	return "/servers/" + server
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

// Refuse returns the error of Do for a server name that leads to no target, or nil.
func (r *Router) Refuse(server string) *Error {
	_, err := r.table.Load().Find(server)
	return err
}

// ErrRetired is the error of a Target that another one has replaced, before it has done anything. Clients see it only if the other one is
// gone as well.
var ErrRetired = Errf(ShuttingDown, "the configuration of this server has changed meanwhile; try again")

// Do is the Handler at the end of the chain. A cancelled exchange goes to no server.
func (r *Router) Do(ex *Exchange) (Replies, error) { return r.DoAt(ex.Server, ex) }

// DoAt is Do for an exchange that goes to the given server, whatever its path names.
func (r *Router) DoAt(server string, ex *Exchange) (Replies, error) {
	for {
		if cause := ex.Err(); cause != nil {
			return nil, cause
		}
		table := r.table.Load()
		target, err := table.Find(server)
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
