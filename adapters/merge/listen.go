package merge

import (
	"bytes"
	"context"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

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
	u      *Upstream
	ex     *proxy.Exchange
	id     []byte // of the request, raw JSON
	lists  []string
	caller proxy.Caller
	stop   context.CancelFunc
	apart  []*member // members that show the caller lists of its own, as far as they have a branch; owned by watch

	mu       sync.Mutex
	branches []*branch
	acked    bool
	queue    []rules.Notice
	err      error
	wake     chan struct{}
}

// branch is the part of a listen at one member.
type branch struct {
	l      *listen
	member *member
	lists  []string // whose changes the member tells the caller alone
	uris   []string // the member's own
	ready  chan struct{}
	once   sync.Once // of ready
	// refused are the URIs that the member did not acknowledge, and refusedTasks its ids of tasks. They are set before ready is closed.
	refused      []string
	refusedTasks []string
	tasks        map[string]string // handles of the client's tasks, by the member's ids
}

// listen answers subscriptions/listen.
func (u *Upstream) listen(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	if !m.Notifications.IsObject(m.Raw) {
		return nil, proxy.Errf(proxy.InvalidParams, "params.notifications must be an object")
	}
	l := &listen{u: u, ex: ex, id: bytes.Clone(m.Of(m.ID)), caller: ex.Caller, wake: make(chan struct{}, 1)}
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
	v := l.u.view(l.caller)
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
		b.uris, public[uri] = append(b.uris, at.Original), b
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
	b := &branch{l: l, member: m, ready: make(chan struct{})}
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
	_ = l.u.opt.Lists.AwaitOwn(l.ex, at.order, lists.Client{Caller: l.caller}) // if the listen has ended, so does what follows
	before := at.view(l.u.opt.Lists, lists.Client{Caller: l.caller})
	l.follow(ctx, at)
	return l.u.work.Spawn(func() { l.watch(ctx, at, own, before) })
}

// follow opens branches at members that show the caller lists of its own, since they tell nobody else when these change.
func (l *listen) follow(ctx context.Context, at *membership) {
	l.apart = slices.DeleteFunc(l.apart, func(m *member) bool { return at.members[m.Name] != m })
	for _, s := range l.u.opt.Lists.Own(at.order, lists.Client{Caller: l.caller}) {
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
	v := l.u.view(l.caller)
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
		if l.u.opt.Lists.AwaitOwn(ctx, at.order, lists.Client{Caller: l.caller}) != nil {
			return
		}
		l.follow(ctx, at)
		now := at.view(l.u.opt.Lists, lists.Client{Caller: l.caller})
		for _, list := range now.Changed(before) {
			if slices.Contains(l.lists, list) {
				if m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","method":"` + rules.ListChanged(list) + `"}`)); err == nil {
					l.add(&m)
				}
			}
		}
		before = now
	}
}

// run keeps a listen at the member until ctx ends, or the member goes, which then acknowledges nothing any more.
func (b *branch) run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(b.member.ctx, stop)()
	defer b.once.Do(func() {
		b.refused, b.refusedTasks = b.uris, b.ownTasks()
		close(b.ready)
	})
	pause := pauseFirst
	for again := false; ; again = true {
		began := time.Now()
		err := b.attend(ctx, again)
		if ctx.Err() != nil {
			return
		}
		b.l.u.note("debug", b.member.Name, "a listen at a server has ended, and is opened again", err)
		if time.Since(began) > pauseLate {
			pause = pauseFirst
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, pauseLate)
	}
}

// attend opens one listen at the member and queues what it delivers, until it ends.
func (b *branch) attend(ctx context.Context, again bool) error {
	of := &b.l.ex.Client
	filter := wire.Object(append(rules.SubscriptionFilter(b.lists, b.uris), handles.TaskFilter(b.ownTasks())...))
	m, err := wire.Scan(lists.Request("subscriptions/listen", []wire.Change{{Key: "notifications", Value: filter}, {Key: "_meta", Value: wire.Object(rules.ModernMeta(of.Info, of.Caps))}}))
	if err != nil {
		return err
	}
	ex := &proxy.Exchange{Msg: m, Caller: b.l.caller, Client: proxy.Client{Era: proxy.Modern, Version: of.Version, Info: of.Info, Caps: of.Caps},
		Own: true, Server: b.member.Name, Target: b.member.Name}
	defer ex.Release()
	defer ex.Follow(ctx)()
	replies, err := b.member.Do(ex)
	if err != nil {
		return err
	}
	defer func() { _ = replies.Close() }()
	for {
		m, err := replies.Next(time.Time{})
		switch {
		case err != nil:
			return err
		case m.IsResponse():
			return io.EOF
		case m.Is("notifications/subscriptions/acknowledged"):
			b.acknowledged(m, again)
		case m.Is(rules.ResourceUpdated):
			b.updated(m)
		case m.Is(handles.TaskStatus):
			b.taskChanged(m)
		case lists.Changed(m) != nil:
			b.l.u.opt.Lists.Changed(b.member.Name, lists.Client{Caller: b.l.caller})
		}
	}
}

// acknowledged notes which URIs the member honours. After a gap all may have changed.
func (b *branch) acknowledged(m *wire.Message, again bool) {
	honoured := map[string]bool{}
	for _, at := range wire.Items(m.Raw, wire.Path(m.Raw, m.Params, "notifications", "resourceSubscriptions")) {
		honoured[string(at.Text(m.Raw))] = true
	}
	b.once.Do(func() {
		b.refused = slices.DeleteFunc(slices.Clone(b.uris), func(uri string) bool { return honoured[uri] })
		b.noteTasks(m)
		close(b.ready)
	})
	if !again {
		return
	}
	if b.lists != nil {
		b.l.u.opt.Lists.Changed(b.member.Name, lists.Client{Caller: b.l.caller})
	}
	for _, n := range rules.AllChanged(nil, b.uris) {
		if m, err := wire.Scan(n.Msg); err == nil {
			b.updated(&m)
		}
	}
}

// updated queues an update with the URI by which the client knows the resource.
func (b *branch) updated(m *wire.Message) {
	uri := string(m.Text(m.URI))
	if public := b.l.u.view(b.l.caller).PublicURI(b.member.Name, uri); public != uri {
		m.Replace(m.URI, wire.AppendText(nil, public))
		if _, err := m.Settle(nil); err != nil {
			return
		}
	}
	b.l.add(m)
}

// subscribeTasks adds the tasks that a listen names (SEP-2663, Task Status Notifications) to the branches of their members. A task that
// is not the caller's is not acknowledged.
func (l *listen) subscribeTasks(m *wire.Message) *proxy.Error {
	ids := wire.Get(m.Raw, m.Notifications, "taskIds")
	if !ids.Present() {
		return nil
	}
	if err := tasksDeclared(l.u.view(l.caller), &l.ex.Client, "subscriptions/listen"); err != nil {
		return err
	}
	n := 0
	for _, at := range wire.Items(m.Raw, ids) {
		if n++; n > maxSubscribed {
			return proxy.Errf(proxy.InvalidParams, "more than %d taskIds in one listen", maxSubscribed)
		}
		handle := string(at.Text(m.Raw))
		server, own, ok := handles.OpenTask(l.u.opt.Sealer, &l.caller, handle)
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

// ownTasks returns the ids that the tasks of the branch have at the member.
func (b *branch) ownTasks() []string { return slices.Sorted(maps.Keys(b.tasks)) }

// honouredTasks returns the handles of tasks that the member honours, or may honour once it is back.
func (b *branch) honouredTasks() (handles []string) {
	refused := []string(nil)
	select {
	case <-b.ready:
		refused = b.refusedTasks
	default:
	}
	for own, handle := range b.tasks {
		if !slices.Contains(refused, own) {
			handles = append(handles, handle)
		}
	}
	return handles
}

// noteTasks notes which tasks the member does not honour.
func (b *branch) noteTasks(ack *wire.Message) {
	b.refusedTasks = b.ownTasks()
	for _, at := range wire.Items(ack.Raw, wire.Path(ack.Raw, ack.Params, "notifications", "taskIds")) {
		own := string(at.Text(ack.Raw))
		b.refusedTasks = slices.DeleteFunc(b.refusedTasks, func(id string) bool { return id == own })
	}
}

// taskChanged queues the state of a task, with the handle by which the client knows it.
func (b *branch) taskChanged(m *wire.Message) {
	handle, ok := b.tasks[string(m.Text(m.TaskID))]
	if !ok {
		return
	}
	m.Replace(m.TaskID, wire.AppendText(nil, handle))
	b.l.u.view(b.l.caller).ResultURIs(m, wire.Get(m.Raw, m.Params, "result"), b.member.Name)
	if _, err := m.Settle(nil); err == nil {
		b.l.add(m)
	}
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
