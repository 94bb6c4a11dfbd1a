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
	"dragoman/adapters/merge/view"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Member is one of the servers of an Upstream.
type Member struct {
	view.Member
	// Do serves an exchange at the member, with all policies of the member.
	Do proxy.Handler
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
	// Grace is how long the lists of a member that is away are shown; 0: 5 minutes.
	Grace time.Duration
	// Strict makes lists of which a part is not up to date an error.
	Strict bool
	Note   func(level, server, msg string, err error) // receives what an operator should know; nil: nobody
}

// Upstream is several servers as one. It is a proxy.Upstream.
type Upstream struct {
	opt     Options
	members map[string]*Member
	order   []string // their names, ordered
	views   *view.Maker
	clients clients

	refreshers map[string]*refresher
	work       *work.Group
}

// New returns the Upstream of its members. It sends them nothing.
func New(opt Options) *Upstream {
	if opt.EmptyAgain == 0 {
		opt.EmptyAgain = emptyAgain
	}
	if opt.Grace == 0 {
		opt.Grace = graceTime
	}
	u := &Upstream{opt: opt, members: make(map[string]*Member, len(opt.Members)), refreshers: map[string]*refresher{}, work: work.New(nil)}
	var seen []view.Member
	for i := range opt.Members {
		m := &opt.Members[i]
		u.members[m.Name], u.order, seen = m, append(u.order, m.Name), append(seen, m.Member)
	}
	slices.Sort(u.order)
	u.views = view.NewMaker(view.Options{Members: seen, Names: opt.Names, Own: opt.Own, Info: opt.Info, PageBytes: opt.PageBytes})
	return u
}

// view returns what a caller sees now.
func (u *Upstream) view(caller proxy.Caller) *view.View {
	return u.views.Of(u.opt.Catalogue.Snapshot(), caller)
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
