package aggregator

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccy/go-json"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/eventstream"
	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/mcphttp"
)

// Names of events.
const (
	EventSnapshot   = "snapshot"   // a server as it is at the beginning
	EventReady      = "ready"      // the end of the snapshot
	EventRegistered = "registered" // or named in the configuration
	EventChanged    = "changed"    // how it is reached, or what is known about it
	EventRemoved    = "removed"
	EventStatus     = "status"
	EventTools      = "tools"  // their number
	EventReread     = "reread" // the stream ends, and the reader has to open another
)

// Bounds of streams of events.
const (
	maxReaders = 32
	// maxBehind is how many bytes may wait for a reader.
	maxBehind = 256 << 10
	// gather is how long changes are gathered before the next events.
	gather = 100 * time.Millisecond
	// retryReaders is after how many seconds a reader who finds no room may try again.
	retryReaders = 30
)

// Events tells readers of changes of servers. It compares what is known of them each time that something may have changed, and does nothing
// without readers. Its methods may be called from any goroutine.
type Events struct {
	servers func() []Server
	offers  func() <-chan struct{}
	wake    chan struct{}
	reading atomic.Int32   // readers
	running sync.WaitGroup // the goroutine that compares

	mu      sync.Mutex
	readers map[*httpserver.Stream]*time.Timer // which ends the stream with the credential of its reader; nil: that lasts
	known   map[string]known
	order   []string      // keys of known by name
	stop    chan struct{} // ends the goroutine that compares; nil: there is none
}

// NewEvents returns Events of servers, which offers tells of too: it returns a channel that is closed when what they offer changes after the
// call; nil: nobody tells.
func NewEvents(servers func() []Server, offers func() <-chan struct{}) *Events {
	return &Events{servers: servers, offers: offers, wake: make(chan struct{}, 1), readers: map[*httpserver.Stream]*time.Timer{}}
}

// known holds what readers were told of a server.
type known struct {
	data, lasting string // JSON: of all, and of what its events do not name
	status        string
	tools         int
}

// keyOf returns what tells a server from others. A registered one and one of the configuration may have the same name.
func keyOf(s *Server) string { return s.Source + "/" + s.Name }

// view returns what is to be known of all servers.
func (e *Events) view() (all map[string]known, order []string) {
	all = map[string]known{}
	for _, s := range e.servers() {
		data, err := json.MarshalWithOption(&s, json.DisableHTMLEscape())
		if err != nil {
			continue // it has no such values
		}
		lasting := Server{ID: s.ID, Description: s.Description, Transport: s.Transport, Connection: s.Connection, HealthURL: s.HealthURL, Disabled: s.Disabled, Held: s.Held}
		if s.Source != Registered {
			lasting.ID = "" // it has one when it was seen
		}
		rest, err := json.Marshal(&lasting)
		if err != nil {
			continue
		}
		key := keyOf(&s)
		all[key] = known{string(data), string(rest), s.Status, s.ToolCount}
		order = append(order, key)
	}
	return all, order
}

// Touch says that something may have changed. It does not wait.
func (e *Events) Touch() {
	if e.reading.Load() == 0 {
		return
	}
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// open makes the answer of ctx a stream of events, which begins with all servers.
func (e *Events) open(ctx *fasthttp.RequestCtx) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.readers) >= maxReaders {
		ctx.Response.Header.Set("Retry-After", strconv.Itoa(retryReaders))
		return &Problem{fasthttp.StatusServiceUnavailable, strconv.Itoa(maxReaders) + " readers follow the servers, the most that can"}
	}
	if e.stop == nil {
		e.known, e.order = e.view()
	}
	var first []byte
	for _, key := range e.order {
		first = eventstream.Append(first, EventSnapshot, nil, []byte(e.known[key].data))
	}
	first = eventstream.Append(first, EventReady, nil, []byte(`{"total_servers":`+strconv.Itoa(len(e.order))+`}`))
	var stream *httpserver.Stream
	stream, err := httpserver.OpenStream(ctx, httpserver.StreamOptions{First: first, OnClose: func(error) {
		e.mu.Lock() // held until stream is set
		defer e.mu.Unlock()
		e.forget(stream)
	}, OnDrain: func(s *httpserver.Stream) { _ = s.Write(reread("dragoman is ending")) }})
	if err != nil {
		return err
	}
	e.readers[stream] = nil
	if r := mcphttp.CallerOf(ctx).Rights; r != nil && !r.Expires.IsZero() {
		e.readers[stream] = time.AfterFunc(time.Until(r.Expires), func() { end(stream, "the credential has expired") })
	}
	e.reading.Add(1)
	if e.stop == nil {
		e.stop = make(chan struct{})
		e.running.Go(func() { e.compare(e.stop) })
	}
	return nil
}

// forget forgets a reader. The goroutine that compares ends with the last one. The caller holds mu.
func (e *Events) forget(stream *httpserver.Stream) {
	expiry, is := e.readers[stream]
	if !is {
		return
	}
	if expiry != nil {
		expiry.Stop()
	}
	delete(e.readers, stream)
	e.reading.Add(-1)
	if len(e.readers) == 0 {
		close(e.stop)
		e.stop, e.known, e.order = nil, nil, nil
	}
}

// compare tells readers of changes until stop is closed.
func (e *Events) compare(stop <-chan struct{}) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-stop:
			return
		case <-pause.C:
		}
		offers := e.offers() // before the servers are read, so that no change is lost between
		now, order := e.view()
		e.tell(stop, now, order)
		select {
		case <-stop:
			return
		case <-e.wake:
		case <-offers:
		}
		pause.Reset(gather)
	}
}

// tell sends the events that lead from what was known to what is known now.
func (e *Events) tell(stop <-chan struct{}, now map[string]known, order []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-stop:
		return // there may be other readers, who know something else
	default:
	}
	var events []byte
	for _, key := range e.order {
		if _, still := now[key]; !still {
			events = eventstream.Append(events, EventRemoved, nil, []byte(e.known[key].data))
		}
	}
	for _, key := range order {
		was, there := e.known[key]
		is := now[key]
		for _, one := range []struct {
			name string
			is   bool
		}{{EventRegistered, !there}, {EventChanged, there && was.lasting != is.lasting}, {EventStatus, there && was.status != is.status}, {EventTools, there && was.tools != is.tools}} {
			if one.is {
				events = eventstream.Append(events, one.name, nil, []byte(is.data))
			}
		}
	}
	e.known, e.order = now, order
	if len(events) == 0 {
		return
	}
	for stream := range e.readers {
		if waiting := stream.Waiting(); waiting > 0 && waiting+len(events) > maxBehind {
			end(stream, "the reader is too slow, and misses events")
			continue
		}
		_ = stream.Write(events) // if it is closed, its reader has left
	}
}

// reread returns the event that ends a stream.
func reread(why string) []byte {
	return eventstream.Append(nil, EventReread, nil, append(strconv.AppendQuote([]byte(`{"detail":`), why+"; open the stream again"), '}'))
}

// end ends a stream.
func end(stream *httpserver.Stream, why string) {
	_ = stream.Write(reread(why)) // if it is closed, its reader has left
	stream.End()
}

// EndAll ends all streams, as when other callers may read.
func (e *Events) EndAll(why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for stream := range e.readers {
		end(stream, why)
	}
}

// Close waits until nothing of Events runs. The streams have ended before.
func (e *Events) Close() { e.running.Wait() }

// errStream says that the answer has become a stream.
var errStream = errors.New("the answer is a stream")

func (a *api) events(ctx *fasthttp.RequestCtx) (int, any, error) {
	if err := a.opt.Events.open(ctx); err != nil {
		return 0, nil, err
	}
	return 0, nil, errStream
}
