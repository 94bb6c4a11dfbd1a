// Package merge makes one MCP server of several. Towards modern clients, and towards modern members, it speaks the modern era; between a
// legacy client and a legacy member it adds names and nothing else.
//
// Lists come from the catalogue. A call goes to the member whose name, or whose public name, it has; the member's own policies judge it
// there. What the names are is package names' business.
package merge

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/era/seal"
	"dragoman/adapters/era/work"
	"dragoman/adapters/merge/find"
	"dragoman/adapters/merge/lists"
	"dragoman/adapters/merge/metatools"
	"dragoman/adapters/merge/names"
	"dragoman/adapters/merge/skillset"
	"dragoman/adapters/merge/view"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Member is one of the servers of an Upstream.
type Member struct {
	view.Member
	// Do serves an exchange at the member, with all policies of the member.
	Do proxy.Handler
	// Notice reports whether a caller may receive a notification of the member that is no reply; nil: all may all.
	Notice func(who proxy.Caller, m *wire.Message) bool
}

// Options configure an Upstream.
type Options struct {
	Members    []Member         // at first, see SetMembers
	Lists      *lists.Refresher // keeps the catalogue of the members
	Names      names.Style
	Own        []string // names that belong to tools of Dragoman
	Info       []byte   // serverInfo, a JSON object
	Sealer     *seal.Sealer
	StateTTL   time.Duration                              // of what is sealed into a requestState
	PageBytes  int                                        // the size from which a list has a further page; 0: 8 MiB
	Strict     bool                                       // at first, see SetStrict
	Skills     view.Skills                                // whose skills modern clients are served
	Finder     metatools.Finder                           // searches the tools; needed once SetContext has rules, or something is searched for
	Categories func(server, name string) []string         // of a tool, the primary one first; nil: there are none
	Counts     *find.Counts                               // counts lists and searches; nil: nobody counts
	Note       func(level, server, msg string, err error) // receives what an operator should know; nil: nobody
}

// Upstream is several servers as one. It is a proxy.Upstream.
type Upstream struct {
	opt      Options
	strict   atomic.Bool
	tools    *find.Tools // Dragoman's own
	skills   skillset.Set
	now      atomic.Pointer[membership]
	changing sync.Mutex // held while now is replaced
	clients  clients
	listens  listens
	work     *work.Group
}

// New returns the Upstream of its members, which the caller must close. It sends them nothing.
func New(opt Options) *Upstream {
	u := &Upstream{opt: opt, work: work.New(nil)}
	u.tools = find.New(find.Options{Catalogue: opt.Lists.Catalogue(), Finder: opt.Finder, Counts: opt.Counts, Info: opt.Info})
	u.skills = skillset.Set{Ask: u.ask, Info: opt.Info, PageBytes: cmp.Or(opt.PageBytes, view.PageBytes)}
	u.strict.Store(opt.Strict)
	u.now.Store(u.following(&membership{}, opt.Members))
	u.work.Spawn(func() { u.announce(u.work.Context()) })
	return u
}

// Close implements proxy.Upstream. It ends the clients' sessions at the members, with their calls, and all listens, as a drain does. The
// members and the clients' own sessions stay open.
func (u *Upstream) Close() error {
	u.work.Close()
	for _, c := range u.clients.all() {
		c.endFor(work.ErrClosing())
	}
	u.listens.end()
	u.work.Cancel()
	u.work.Wait()
	return nil
}

func (u *Upstream) catalogue() *catalogue.Catalogue { return u.opt.Lists.Catalogue() }

// note logs what an operator should know.
func (u *Upstream) note(level, server, msg string, err error) {
	if u.opt.Note != nil {
		u.opt.Note(level, server, msg, err)
	}
}

// Do implements proxy.Upstream.
func (u *Upstream) Do(ex *proxy.Exchange) (proxy.Replies, error) {
	if len(ex.Msg.Edits) > 0 { // of policies of the endpoint: what they have written counts
		if _, err := ex.Msg.Settle(nil); err != nil {
			return nil, proxy.Errf(proxy.Internal, "an edited request is no message: %w", err)
		}
	}
	if ex.Client.Era == proxy.Legacy {
		replies, err := u.legacy(ex)
		return replies, inSession(err)
	}
	if ex.Msg.Kind == wire.Notification {
		return nil, nil // no server awaits a notification of the modern era
	}
	return u.modern(ex)
}

// member is one of the servers, from when it comes until it goes. The Member behind it may be replaced meanwhile.
type member struct {
	Name string
	now  atomic.Pointer[Member]
	ctx  context.Context // ends with the member, for the reason that clients are told, and with the Upstream
	end  context.CancelCauseFunc
}

// Do serves an exchange at the member as it is now.
func (m *member) Do(ex *proxy.Exchange) (proxy.Replies, error) { return m.now.Load().Do(ex) }

// gone returns why the member is one no longer; nil if it still is.
func (m *member) gone() error {
	if m.ctx.Err() == nil {
		return nil
	}
	var why *proxy.Error
	if errors.As(context.Cause(m.ctx), &why) {
		return why
	}
	return nil
}

func removed(name string) *proxy.Error {
	return proxy.Errf(proxy.Lost, "the server %q was removed from this endpoint", name)
}

// membership holds the members at one time. It does not change.
type membership struct {
	members  map[string]*member
	order    []string // their names, ordered
	views    *view.Maker
	replaced chan struct{} // closed when there is another membership
}

// member returns the member of a name.
func (u *Upstream) member(name string) (*member, error) {
	if m := u.now.Load().members[name]; m != nil {
		return m, nil
	}
	return nil, removed(name)
}

// view returns what the modern client of a request sees now.
func (u *Upstream) view(ex *proxy.Exchange) *view.View {
	if v := u.everyone(); v != nil {
		return v
	}
	who := clientOf(ex)
	return u.viewOf(&who)
}

// everyone returns what every client sees now, if that is the same and known.
func (u *Upstream) everyone() *view.View {
	if !u.opt.Lists.Uniform() {
		return nil
	}
	return u.now.Load().views.Everyone(u.catalogue().Snapshot())
}

// viewOf returns what a client sees now.
func (u *Upstream) viewOf(who *lists.Client) *view.View { return u.now.Load().view(u.opt.Lists, who) }

// view returns what a client sees of the members.
func (at *membership) view(of *lists.Refresher, who *lists.Client) *view.View {
	snap := of.Catalogue().Snapshot()
	if own := of.Own(at.order, who); own != nil {
		return at.views.Own(snap, who.Caller, own)
	}
	return at.views.Of(snap, who.Caller)
}

// clientOf returns whose request it is.
func clientOf(ex *proxy.Exchange) lists.Client {
	return lists.Client{Caller: ex.Caller, Legacy: ex.Client.Era == proxy.Legacy, Caps: ex.Client.Caps}
}

// legacyClient returns a caller as a legacy client.
func legacyClient(caller proxy.Caller) lists.Client {
	return lists.Client{Caller: caller, Legacy: true}
}

// SetMembers replaces the members, while requests run. A member of a name that was one before keeps its clients' sessions, and serves all
// later requests as it is now. The part of one that is no longer a member is left out of all lists at once. Legacy clients' sessions there
// end, as do listens at it; a call of a modern client that runs there goes on. Clients are told that lists have changed.
//
// The catalogue must hold all members.
func (u *Upstream) SetMembers(members []Member) {
	u.changing.Lock()
	defer u.changing.Unlock()
	before := u.now.Load()
	next := u.following(before, members)
	u.now.Store(next)
	close(before.replaced)
	for name, m := range before.members {
		if next.members[name] != m {
			m.end(removed(name))
		}
	}
	for _, c := range u.clients.all() {
		c.leave()
		c.rejoin(before, next)
	}
}

// SetStrict sets whether lists of which a part is not up to date are an error.
func (u *Upstream) SetStrict(strict bool) { u.strict.Store(strict) }

// SetContext sets which clients are listed the meta-tools in the place of all tools; nil: none. Names that the meta-tools have belong to them
// only if Options.Own has them.
func (u *Upstream) SetContext(r *metatools.Rules) { u.tools.SetRules(r) }

// resorted reports whether the meta-tools tell of other categories than before.
func (u *Upstream) resorted(before, now *catalogue.Snapshot) bool {
	return before.Sorted != now.Sorted && u.tools.On()
}

// Sizes returns how much of the tools is listed to callers without rights of their own, by each rule of SetContext.
func (u *Upstream) Sizes() []find.Size {
	return u.tools.Sizes(u.viewOf(&lists.Client{}))
}

// own answers a call of one of the meta-tools. known is false for calls of other tools.
func (u *Upstream) own(ex *proxy.Exchange, sees func(*proxy.Exchange) *view.View) (_ proxy.Replies, known bool, _ error) {
	if !u.tools.Has(ex) {
		return nil, false, nil
	}
	if err := u.awaitFirst(ex, catalogue.Tools); err != nil {
		return nil, true, err
	}
	return u.tools.Call(ex, sees(ex), legacyVersion(ex)), true, nil
}

// following returns the membership that follows another.
func (u *Upstream) following(before *membership, members []Member) *membership {
	next := &membership{members: make(map[string]*member, len(members)), replaced: make(chan struct{})}
	seen := make([]view.Member, len(members))
	for i := range members {
		is := &members[i]
		m := before.members[is.Name]
		if m == nil {
			m = &member{Name: is.Name}
			m.ctx, m.end = context.WithCancelCause(u.work.Context())
		}
		m.now.Store(is)
		next.members[is.Name], next.order, seen[i] = m, append(next.order, is.Name), is.Member
	}
	slices.Sort(next.order)
	next.views = view.NewMaker(view.Options{Members: seen, Names: u.opt.Names, Own: u.opt.Own, Categories: u.opt.Categories, Info: u.opt.Info, PageBytes: u.opt.PageBytes, Skills: u.opt.Skills})
	return next
}

// leave ends the client's sessions at servers that are members no longer.
func (c *client) leave() {
	for _, s := range c.all() {
		if why := s.member.gone(); why != nil {
			s.session.EndFor(proxy.Closed, why)
		}
	}
}

// rejoin subscribes the client again to resources of members that have come back.
func (c *client) rejoin(before, next *membership) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, uris := range c.subscribed {
		if m := next.members[name]; m != nil && before.members[name] == nil && len(uris) > 0 {
			c.u.work.Spawn(func() { c.renew(m, true) })
		}
	}
}

// Dismiss ends the sessions of all legacy clients, for a reason that they are told, and all listens, as a drain does. It is called when
// something else takes the place of the Upstream.
func (u *Upstream) Dismiss(why *proxy.Error) {
	for _, c := range u.clients.all() {
		c.session.EndFor(proxy.Closed, why)
	}
	u.listens.end()
}

// listens holds the listens that run.
type listens struct {
	mu  sync.Mutex
	all map[*listen]proxy.Ticket
}

func (x *listens) add(l *listen) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all == nil {
		x.all = map[*listen]proxy.Ticket{}
	}
	x.all[l] = l.ex.Ticket()
}

func (x *listens) remove(l *listen) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.all, l)
}

// end ends all listens as a drain does: their clients listen anew.
func (x *listens) end() {
	x.mu.Lock()
	all := slices.Collect(maps.Values(x.all))
	x.mu.Unlock()
	for _, l := range all {
		l.Cancel(proxy.ErrDraining)
	}
}

// awaitFirst waits until each member of which no list of a kind was known was asked once, and until the lists that the client is shown are up
// to date, for a time.
func (u *Upstream) awaitFirst(ex *proxy.Exchange, kind catalogue.Kind) error {
	return u.opt.Lists.Await(ex, u.now.Load().order, clientOf(ex), kind)
}
