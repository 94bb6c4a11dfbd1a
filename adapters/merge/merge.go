// Package merge makes one MCP server of several. Towards modern clients, and towards modern members, it speaks the modern era; between a
// legacy client and a legacy member it adds names and nothing else.
//
// Lists come from the catalogue. A call goes to the member whose name, or whose public name, it has; the member's own policies judge it
// there. What the names are is package names' business.
package merge

import (
	"context"
	"slices"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/era/seal"
	"dragoman/adapters/era/work"
	"dragoman/adapters/merge/names"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Member is one of the servers of an Upstream.
type Member struct {
	Name string
	// Do serves an exchange at the member, with all policies of the member.
	Do proxy.Handler
	// Shown filters the lists of the member for a caller; nil: all callers see everything.
	Shown proxy.Policy
	// Apart means that Shown does not show all callers the same.
	Apart bool
	// Modern finds out whether the member is modern.
	Modern func(ctx context.Context) (bool, error)
}

// Options configure an Upstream.
type Options struct {
	Members   []Member
	Catalogue *catalogue.Catalogue
	Names     names.Style
	Own       []string // names that belong to tools of Dragoman
	Info      []byte   // serverInfo, a JSON object
	Sealer    *seal.Sealer
	StateTTL  time.Duration // of what is sealed into a requestState
	PageBytes int           // the size from which a list has a further page; 0: 8 MiB
	NewID     func() string // makes unguessable ids of sessions
	// EmptyAgain is how long an empty list after a full one is not believed; 0: 5 s.
	EmptyAgain time.Duration
	Note       func(level, server, msg string, err error)
}

// Upstream is several servers as one. It is a proxy.Upstream.
type Upstream struct {
	opt     Options
	members map[string]*Member
	order   []string // their names, ordered
	apart   bool     // a member is Apart
	views   views
	clients clients

	refreshers map[string]*refresher
	work       *work.Group
}

// pageBytes is the default of Options.PageBytes. Many clients read the first page only.
const pageBytes = 8 << 20

// New returns the Upstream of its members. It sends them nothing.
func New(opt Options) *Upstream {
	if opt.PageBytes == 0 {
		opt.PageBytes = pageBytes
	}
	if opt.EmptyAgain == 0 {
		opt.EmptyAgain = emptyAgain
	}
	u := &Upstream{opt: opt, members: make(map[string]*Member, len(opt.Members)), refreshers: map[string]*refresher{}, work: work.New(nil)}
	for i := range opt.Members {
		m := &opt.Members[i]
		u.members[m.Name], u.order, u.apart = m, append(u.order, m.Name), u.apart || m.Apart
	}
	slices.Sort(u.order)
	return u
}

// Close implements proxy.Upstream. The members stay open.
func (u *Upstream) Close() error {
	u.work.Close()
	u.work.Cancel()
	u.work.Wait()
	return nil
}

// note logs what an operator should know.
func (u *Upstream) note(level, server, msg string, err error) {
	if u.opt.Note != nil {
		u.opt.Note(level, server, msg, err)
	}
}

// Do implements proxy.Upstream.
func (u *Upstream) Do(ex *proxy.Exchange) (proxy.Replies, error) {
	if ex.Client.Era == proxy.Legacy {
		return u.legacy(ex)
	}
	if ex.Msg.Kind == wire.Notification {
		return nil, nil // no server awaits a notification of the modern era
	}
	return u.modern(ex)
}
