package merge

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"dragoman/adapters/merge/handles"
	"dragoman/adapters/merge/lists"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// branch is the part of a listen at one member.
type branch struct {
	l      *listen
	member *member
	lists  []string          // whose changes the member tells the caller alone
	uris   []string          // the member's own; once it has acknowledged some, these
	asked  map[string]string // the URIs with which the client has asked for them
	ready  chan struct{}
	once   sync.Once // of ready
	// refused are the URIs that the member did not acknowledge, and refusedTasks its ids of tasks. They are set before ready is closed.
	refused      []string
	refusedTasks []string
	tasks        map[string]string // handles of the client's tasks, by the member's ids
}

// run keeps a listen at the member until ctx ends. If the member goes, which then acknowledges nothing any more, it goes on when the member
// comes back, for what was acknowledged.
func (b *branch) run(ctx context.Context) {
	for again := false; ; again = true {
		b.stay(ctx, again)
		b.once.Do(b.gone)
		nothing := len(b.uris) == 0 && len(b.ownTasks()) == 0
		if b.lists != nil || nothing || !b.returned(ctx) { // lists of the caller's own have a new branch
			return
		}
	}
}

// gone notes that the member has acknowledged nothing, unless the client was told otherwise while it was away.
func (b *branch) gone() {
	b.l.mu.Lock()
	told := b.l.acked
	b.l.mu.Unlock()
	if !told {
		b.refused, b.refusedTasks, b.uris = b.uris, b.ownTasks(), nil
	}
	close(b.ready)
}

// errRefused means that a member answers a listen with an error.
var errRefused = errors.New("the server refuses the listen")

// refused reports whether a listen at a member has failed because the member, or a rule of it, refuses what it asks for.
func refused(err error) bool {
	return errors.Is(err, errRefused) || proxy.IsFault(err, proxy.InsufficientScope, proxy.Unauthenticated, proxy.InvalidParams, proxy.MethodNotFound)
}

// refuse notes that the member refuses what the client asks of it, and reports whether there is nothing left to ask for.
func (b *branch) refuse() bool {
	if b.lists != nil {
		return false
	}
	b.once.Do(b.gone)
	return len(b.uris) == 0 && len(b.ownTasks()) == 0
}

// returned waits until there is a member of the name again, which takes the place of the one that has gone; false if ctx has ended.
func (b *branch) returned(ctx context.Context) bool {
	for ctx.Err() == nil && b.l.u.work.Context().Err() == nil {
		at := b.l.u.now.Load()
		if m := at.members[b.member.Name]; m != nil && m.gone() == nil {
			b.member = m
			return true
		}
		select {
		case <-ctx.Done():
		case <-at.replaced:
		}
	}
	return false
}

// stay keeps a listen at the member until ctx ends, or the member goes. again means that there was one before.
func (b *branch) stay(ctx context.Context, again bool) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(b.member.ctx, stop)()
	pause := pauseFirst
	for ; ; again = true {
		began := time.Now()
		err := b.attend(ctx, again)
		if ctx.Err() != nil || refused(err) && b.refuse() {
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
	ex := &proxy.Exchange{Msg: m, Caller: b.l.who.Caller, Client: proxy.Client{Era: proxy.Modern, Version: of.Version, Info: of.Info, Caps: of.Caps},
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
		case m.Kind == wire.Failure:
			return errRefused
		case m.IsResponse():
			return io.EOF
		case m.Is("notifications/subscriptions/acknowledged"):
			b.acknowledged(m, again)
		case m.Is(rules.ResourceUpdated):
			b.updated(m)
		case m.Is(handles.TaskStatus):
			b.taskChanged(m)
		case lists.Changed(m) != nil:
			b.l.u.opt.Lists.Changed(b.member.Name, b.l.who)
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
		asked := b.uris
		b.uris = kept(asked, honoured)
		b.refused = slices.DeleteFunc(slices.Clone(asked), func(uri string) bool { return honoured[uri] })
		b.noteTasks(m)
		close(b.ready)
	})
	if !again {
		return
	}
	if b.lists != nil {
		b.l.u.opt.Lists.Changed(b.member.Name, b.l.who)
	}
	for _, n := range rules.AllChanged(nil, kept(b.uris, honoured)) {
		if m, err := wire.Scan(n.Msg); err == nil {
			b.updated(&m)
		}
	}
}

// kept returns those URIs that are honoured.
func kept(uris []string, honoured map[string]bool) []string {
	return slices.DeleteFunc(slices.Clone(uris), func(uri string) bool { return !honoured[uri] })
}

// updated queues an update with the URI by which the client knows the resource.
func (b *branch) updated(m *wire.Message) {
	uri := string(m.Text(m.URI))
	if public := b.l.u.viewOf(&b.l.who).KnownURI(b.member.Name, uri, b.asked[uri]); public != uri {
		m.Replace(m.URI, wire.AppendText(nil, public))
		if _, err := m.Settle(nil); err != nil {
			return
		}
	}
	b.l.add(m)
}

// ownTasks returns the ids that the tasks of the branch have at the member, but for those that it does not honour.
func (b *branch) ownTasks() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(b.tasks)), func(id string) bool { return slices.Contains(b.refusedTasks, id) })
}

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
	b.l.u.viewOf(&b.l.who).ResultURIs(m, wire.Get(m.Raw, m.Params, "result"), b.member.Name)
	if _, err := m.Settle(nil); err == nil {
		b.l.add(m)
	}
}
