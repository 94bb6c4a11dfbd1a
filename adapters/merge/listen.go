package merge

import (
	"bytes"
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/era/work"
	"dragoman/adapters/merge/handles"
	"dragoman/adapters/merge/lists"
	"dragoman/adapters/merge/view"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Bounds of a listen.
const (
	maxSubscribed = 1024
	maxNotices    = 2 * maxSubscribed
	ackTime       = 5 * time.Second // how long the acknowledgement waits for members
	pauseFirst    = time.Second     // before a listen at a member is opened again
	pauseLate     = time.Minute
)

// listen is a subscriptions/listen of a modern client at all members: changes of lists come from the catalogue, updates of resources from a
// listen at each member that has some.
type listen struct {
	u     *Upstream
	ex    *proxy.Exchange
	id    []byte // of the request, raw JSON
	lists []string
	who   lists.Client
	stop  context.CancelFunc
	apart []*member // members that show the caller lists of its own, as far as they have a branch; owned by watch

	mu       sync.Mutex
	branches []*branch
	acked    bool
	queue    []rules.Notice
	err      error
	wake     chan struct{}
}

// listen answers subscriptions/listen.
func (u *Upstream) listen(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	if !m.Notifications.IsObject(m.Raw) {
		return nil, proxy.Errf(proxy.InvalidParams, "params.notifications must be an object")
	}
	who := clientOf(ex)
	who.Caps = bytes.Clone(who.Caps)
	l := &listen{u: u, ex: ex, id: bytes.Clone(m.Of(m.ID)), who: who, wake: make(chan struct{}, 1)}
	for _, list := range rules.NoticeLists {
		if string(wire.Get(m.Raw, m.Notifications, list+"ListChanged").Of(m.Raw)) == "true" {
			l.lists = append(l.lists, list)
		}
	}
	public, err := l.subscribe(m)
	if err != nil {
		return nil, err
	}
	if err := l.subscribeTasks(m); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(u.work.Context())
	l.stop = stop
	if !l.start(ctx) {
		stop()
		return nil, work.ErrClosing()
	}
	ex.Attach(l)
	u.listens.add(l)
	l.acknowledge(public)
	return l, nil
}

// subscribe finds the members of the resources that a listen names. It returns the URIs as the client has named them, each with its branch.
func (l *listen) subscribe(m *wire.Message) (public map[string]*branch, err error) {
	v := l.u.viewOf(&l.who)
	public = map[string]*branch{}
	for _, at := range wire.Items(m.Raw, wire.Get(m.Raw, m.Notifications, "resourceSubscriptions")) {
		uri := string(at.Text(m.Raw))
		switch {
		case !at.IsString(m.Raw):
			return nil, proxy.Errf(proxy.InvalidParams, "params.notifications.resourceSubscriptions must be an array of strings")
		case len(public) >= maxSubscribed:
			return nil, proxy.Errf(proxy.InvalidParams, "more than %d resourceSubscriptions in one listen", maxSubscribed)
		case public[uri] != nil:
			continue
		}
		at, unknown := v.Locate(uri)
		m, err := l.u.member(at.Server)
		if unknown != nil || err != nil {
			continue // it is not acknowledged
		}
		b := l.branch(m)
		b.uris, public[uri], b.asked[at.Original] = append(b.uris, at.Original), b, uri
	}
	return public, nil
}

// branch returns the branch at a member, which it makes.
func (l *listen) branch(m *member) *branch {
	for _, b := range l.branches {
		if b.member == m {
			return b
		}
	}
	b := &branch{l: l, member: m, asked: map[string]string{}, ready: make(chan struct{})}
	l.branches = append(l.branches, b)
	return b
}

// start starts the goroutines of a listen, which its end stops.
func (l *listen) start(ctx context.Context) bool {
	if len(l.lists) > 0 && !l.startWatch(ctx) {
		return false
	}
	for _, b := range l.branches {
		if !l.u.work.Spawn(func() { b.run(ctx) }) {
			return false
		}
	}
	return true
}

// startWatch starts watch with what the caller sees now: what changes after the acknowledgement is told.
func (l *listen) startWatch(ctx context.Context) bool {
	at, own := l.u.now.Load(), l.u.opt.Lists.OwnChanged()
	_ = l.u.opt.Lists.AwaitOwn(l.ex, at.order, l.who) // if the listen has ended, so does what follows
	before := at.view(l.u.opt.Lists, &l.who)
	l.follow(ctx, at)
	return l.u.work.Spawn(func() { l.watch(ctx, at, own, before) })
}

// follow opens branches at members that show the caller lists of its own, since they tell nobody else when these change.
func (l *listen) follow(ctx context.Context, at *membership) {
	l.apart = slices.DeleteFunc(l.apart, func(m *member) bool { return at.members[m.Name] != m })
	for _, s := range l.u.opt.Lists.Own(at.order, &l.who) {
		m := at.members[s.Name]
		announced := slices.DeleteFunc(lists.Announced(s.Capabilities), func(list string) bool { return !slices.Contains(l.lists, list) })
		if len(announced) == 0 || slices.Contains(l.apart, m) {
			continue
		}
		l.apart = append(l.apart, m)
		b := &branch{l: l, member: m, lists: announced, ready: make(chan struct{})}
		l.u.work.Spawn(func() { b.run(ctx) })
	}
}

// acknowledge waits for the members, ackTime at most, and queues the first message. Subscriptions at a member that is away are
// acknowledged, too: their updates come once the member is back.
func (l *listen) acknowledge(public map[string]*branch) {
	limit := time.NewTimer(ackTime)
	defer limit.Stop()
	for _, b := range l.branches {
		select {
		case <-b.ready:
			continue
		case <-limit.C:
		case <-l.ex.Done():
		}
		break
	}
	var uris []string
	v := l.u.viewOf(&l.who)
	for uri, b := range public {
		select {
		case <-b.ready:
			if at, err := v.Locate(uri); err == nil && slices.Contains(b.refused, at.Original) {
				continue
			}
		default:
		}
		uris = append(uris, uri)
	}
	slices.Sort(uris)
	var tasks []string
	for _, b := range l.branches {
		tasks = append(tasks, b.honouredTasks()...)
	}
	slices.Sort(tasks)
	filter := append(rules.SubscriptionFilter(l.lists, uris), handles.TaskFilter(tasks)...)
	params := wire.Object([]wire.Change{{Key: "_meta", Value: l.tag()}, {Key: "notifications", Value: wire.Object(filter)}})
	l.mu.Lock()
	ack := append([]byte(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":`), params...)
	l.queue = append([]rules.Notice{{Msg: append(ack, '}')}}, l.queue...)
	l.acked = true
	l.mu.Unlock()
	work.Signal(l.wake)
}

// tag returns the _meta of every message of the listen.
func (l *listen) tag() []byte {
	return wire.Object([]wire.Change{{Key: wire.MetaPrefix + "subscriptionId", Value: l.id}})
}

// add queues a notice. Of several about one thing that wait the newest is kept.
func (l *listen) add(m *wire.Message) {
	key := rules.NoticeKey(m)
	if key == "" {
		key = string(m.Text(m.Method)) + " " + string(m.Text(m.TaskID))
	}
	if m.Meta.IsObject(m.Raw) {
		m.EditObject(m.Meta, []wire.Change{{Key: wire.MetaPrefix + "subscriptionId", Value: l.id}})
	} else {
		m.EditParams([]wire.Change{{Key: "_meta", Value: l.tag()}})
	}
	msg := m.Append(nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.IndexFunc(l.queue, func(n rules.Notice) bool { return n.Key == key }); i >= 0 {
		l.queue[i].Msg = msg
		return
	}
	if len(l.queue) >= maxNotices {
		l.queue = l.queue[1:]
	}
	l.queue = append(l.queue, rules.Notice{Key: key, Msg: msg})
	work.Signal(l.wake)
}

// watch queues a notice whenever a list has changed from what the caller has seen before. own is closed when a list of some caller's own has
// changed.
func (l *listen) watch(ctx context.Context, at *membership, own <-chan struct{}, before *view.View) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-at.replaced:
		case <-own:
		case <-l.u.catalogue().Changed(before.Snapshot().Version):
		}
		at, own = l.u.now.Load(), l.u.opt.Lists.OwnChanged()
		if l.u.opt.Lists.AwaitOwn(ctx, at.order, l.who) != nil {
			return
		}
		l.follow(ctx, at)
		now := at.view(l.u.opt.Lists, &l.who)
		changed := now.Changed(before)
		if tools := rules.NoticeLists[catalogue.Tools]; l.u.resorted(before.Snapshot(), now.Snapshot()) && !slices.Contains(changed, tools) {
			changed = append(changed, tools)
		}
		for _, list := range changed {
			if slices.Contains(l.lists, list) {
				if m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","method":"` + rules.ListChanged(list) + `"}`)); err == nil {
					l.add(&m)
				}
			}
		}
		before = now
	}
}

// subscribeTasks adds the tasks that a listen names (SEP-2663, Task Status Notifications) to the branches of their members. A task that
// is not the caller's is not acknowledged.
func (l *listen) subscribeTasks(m *wire.Message) *proxy.Error {
	ids := wire.Get(m.Raw, m.Notifications, "taskIds")
	if !ids.Present() {
		return nil
	}
	if err := tasksDeclared(l.u.viewOf(&l.who), &l.ex.Client, "subscriptions/listen"); err != nil {
		return err
	}
	n := 0
	for _, at := range wire.Items(m.Raw, ids) {
		if n++; n > maxSubscribed {
			return proxy.Errf(proxy.InvalidParams, "more than %d taskIds in one listen", maxSubscribed)
		}
		handle := string(at.Text(m.Raw))
		server, own, ok := handles.OpenTask(l.u.opt.Sealer, &l.who.Caller, handle)
		member, gone := l.u.member(server)
		if !ok || gone != nil {
			continue
		}
		b := l.branch(member)
		if b.tasks == nil {
			b.tasks = map[string]string{}
		}
		b.tasks[own] = handle
	}
	return nil
}

// Next implements proxy.Replies.
func (l *listen) Next(until time.Time) (*wire.Message, error) {
	for {
		l.mu.Lock()
		var raw []byte
		if l.acked && len(l.queue) > 0 {
			raw, l.queue = l.queue[0].Msg, l.queue[1:]
		}
		err := l.err
		l.mu.Unlock()
		switch {
		case raw != nil:
			return proxy.Scanned(raw)
		case err != nil:
			return nil, err
		case !work.Pause(l.wake, until):
			return nil, proxy.ErrNotYet
		}
	}
}

// Abort implements proxy.Aborter.
func (l *listen) Abort() { l.end(l.ex.Err()) }

// Close implements proxy.Replies.
func (l *listen) Close() error {
	l.u.listens.remove(l)
	l.ex.Detach(l)
	l.end(io.EOF)
	return nil
}

func (l *listen) end(err error) {
	l.mu.Lock()
	if l.err == nil {
		l.err = err
	}
	l.mu.Unlock()
	l.stop()
	work.Signal(l.wake)
}
