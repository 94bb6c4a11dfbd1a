package provider

import (
	"context"
	"errors"
	"sync"
	"time"

	"dragoman/adapters/grpc/providerpb"
	"dragoman/adapters/grpc/providerpb/cloudeventspb"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// The pauses between attempts to open the stream of events.
const (
	feedLeast = 100 * time.Millisecond
	feedMost  = 10 * time.Second
)

// feed is the stream of a provider's events, of which there is one for all clients, and the listens that are told of them.
type feed struct {
	mu      sync.Mutex
	listens map[*listen]bool
	running bool
	ended   bool
	stop    context.CancelFunc
	done    chan struct{} // closed when the stream has ended; nil: it never ran
}

// on reports whether events arrive, or are about to.
func (f *feed) on() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running
}

func (f *feed) add(l *listen) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listens == nil {
		f.listens = make(map[*listen]bool)
	}
	f.listens[l] = true
}

func (f *feed) remove(l *listen) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.listens, l)
}

// all returns the listens.
func (f *feed) all() []*listen {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]*listen, 0, len(f.listens))
	for l := range f.listens {
		out = append(out, l)
	}
	return out
}

// startFeed begins to read the provider's events, once.
func (u *Upstream) startFeed() {
	f := &u.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running || f.ended {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	f.running, f.stop, f.done = true, stop, make(chan struct{})
	go func() { // ends with endFeed
		defer close(f.done)
		u.readEvents(ctx)
	}()
}

// endFeed ends the stream and waits for that.
func (u *Upstream) endFeed() {
	f := &u.feed
	f.mu.Lock()
	f.ended = true
	stop, done := f.stop, f.done
	f.mu.Unlock()
	if stop != nil {
		stop()
		<-done
	}
}

// readEvents reads the events until ctx ends. After an interruption everything may have changed.
func (u *Upstream) readEvents(ctx context.Context) {
	pause := feedLeast
	for first := true; ctx.Err() == nil; first = false {
		began := time.Now()
		err := u.events(ctx, !first)
		if ctx.Err() != nil {
			return
		}
		u.opt.Note("debug", "the stream of the provider's events has ended", err)
		if proxy.IsFault(err, proxy.MethodNotFound) {
			u.opt.Note("warn", "the provider says that it has events, and does not implement Events", err)
			pause = feedMost
		}
		if time.Since(began) > feedMost {
			pause = feedLeast
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, feedMost)
	}
}

// events reads one stream of events to its end.
func (u *Upstream) events(ctx context.Context, again bool) error {
	ex := new(proxy.Exchange)
	defer ex.Follow(ctx)()
	s, err := u.c.Open(ex, eventsMethod, &providerpb.EventsRequest{}, false)
	if err != nil {
		return err
	}
	defer s.Close()
	if again {
		for _, list := range rules.NoticeLists {
			u.event("mcp."+list+".changed", "")
		}
	}
	for {
		in, err := s.Next(time.Time{})
		if err != nil {
			return err
		}
		e := in.(*cloudeventspb.CloudEvent)
		u.event(e.GetType(), e.GetAttributes()["subject"].GetCeString())
		if u.opt.Event != nil {
			if err := u.opt.Event(eventOf(e)); err != nil {
				u.opt.Note("warn", "an event of the provider is not passed on", err)
			}
		}
	}
}

// event acts on an event that is about definitions or resources, by its type and subject.
func (u *Upstream) event(kind, subject string) {
	var notice rules.Notice
	switch kind {
	case "mcp.tools.changed", "mcp.prompts.changed", "mcp.resources.changed":
		list := kind[len("mcp.") : len(kind)-len(".changed")]
		for k, name := range lists {
			if name == list {
				u.known.forget(k)
				for _, l := range u.feed.all() {
					l.changed(k)
				}
			}
		}
		notice = rules.AllChanged([]string{list}, nil)[0]
	case "mcp.resource.updated":
		if subject == "" {
			u.opt.Note("warn", "an event of the provider is ignored", errors.New("mcp.resource.updated needs the URI as its subject"))
			return
		}
		for _, l := range u.feed.all() {
			l.updated(subject)
		}
		notice = rules.AllChanged(nil, []string{subject})[0]
	default:
		return
	}
	if m, err := wire.Scan(notice.Msg); err == nil && u.opt.Changed != nil {
		u.opt.Changed(&m)
	}
}
