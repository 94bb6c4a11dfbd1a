// Package changes notifies the clients of the demonstration server that a list or a resource has changed: modern clients in
// their subscriptions/listen, legacy clients in their sessions.
package changes

import (
	"sync"

	"dragoman/conformance/everything/content"
	"dragoman/proxy"
)

// MaxWatched is how many resources one session or one listen may watch, MaxListens how many listens may be open.
const (
	MaxWatched = 1000
	MaxListens = 1024
)

// Topic is a kind of list that can change.
type Topic uint8

// The topics.
const (
	Tools Topic = iota
	Prompts
	Resources
	Topics // number of topics
)

// String returns the topic's name on the wire.
func (t Topic) String() string { return [...]string{"tools", "prompts", "resources"}[t] }

// Notice is a change: of the resource at uri or, if that is empty, of the list of topic.
type Notice struct {
	Topic Topic
	URI   string
}

// method returns the method of the notification.
func (n Notice) method() string {
	if n.URI != "" {
		return "notifications/resources/updated"
	}
	return "notifications/" + n.Topic.String() + "/list_changed"
}

// message returns the notification, raw JSON. meta is the _meta of its params, raw JSON, or empty.
func (n Notice) message(meta string) []byte {
	uri := ""
	if n.URI != "" {
		uri = content.Quote(n.URI)
	}
	params := content.Object("uri", uri, "_meta", meta)
	if params == "{}" {
		params = ""
	}
	return []byte(content.Object("jsonrpc", `"2.0"`, "method", content.Quote(n.method()), "params", params))
}

// Subscribers holds the receivers of change notifications: modern listens, and legacy sessions. A session receives the
// changes of every list and of its subscribed resources. publish never waits for a client.
type Subscribers struct {
	canWatch func(uri string) bool // whether there is, or may be, a resource

	mu       sync.Mutex
	closed   bool
	listens  map[*listen]struct{}
	sessions map[*proxy.Session]map[string]struct{} // subscribed URIs
}

// New returns an empty set. canWatch reports whether a resource can be subscribed to.
func New(canWatch func(uri string) bool) *Subscribers {
	return &Subscribers{canWatch: canWatch, listens: map[*listen]struct{}{}, sessions: map[*proxy.Session]map[string]struct{}{}}
}

// Join subscribes a session to changes of lists until it ends.
func (b *Subscribers) Join(s *proxy.Session) {
	b.mu.Lock()
	_, known := b.sessions[s]
	if !known {
		b.sessions[s] = map[string]struct{}{}
	}
	b.mu.Unlock()
	if !known {
		s.OnEnd(func() { b.part(s) }) // runs at once if the session has ended
	}
}

func (b *Subscribers) part(s *proxy.Session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sessions, s)
}

// Watch subscribes a session to a resource; false if it has too many subscriptions.
func (b *Subscribers) Watch(s *proxy.Session, uri string) bool {
	b.Join(s)
	b.mu.Lock()
	defer b.mu.Unlock()
	uris, known := b.sessions[s]
	if !known {
		return true // the session has ended
	}
	if _, has := uris[uri]; !has && len(uris) >= MaxWatched {
		return false
	}
	uris[uri] = struct{}{}
	return true
}

// Unwatch ends the subscription of a session to a resource.
func (b *Subscribers) Unwatch(s *proxy.Session, uri string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sessions[s], uri)
}

// open adds a listen.
func (b *Subscribers) open(l *listen) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return proxy.Errf(proxy.ShuttingDown, "the server is shutting down")
	}
	if len(b.listens) >= MaxListens {
		return proxy.Errf(proxy.Overloaded, "%d listens are open, which is the limit", MaxListens)
	}
	b.listens[l] = struct{}{}
	return nil
}

func (b *Subscribers) leave(l *listen) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.listens, l)
}

// Publish notifies all interested listens and sessions.
func (b *Subscribers) Publish(n Notice) {
	b.mu.Lock()
	for l := range b.listens {
		l.tell(n)
	}
	told := make([]*proxy.Session, 0, len(b.sessions))
	for s, uris := range b.sessions {
		if _, watched := uris[n.URI]; watched || n.URI == "" {
			told = append(told, s)
		}
	}
	b.mu.Unlock()
	msg := n.message("")
	for _, s := range told { // without the lock: a session that ends here calls part
		s.Keep(n.method()+" "+n.URI, msg)
	}
}

// Close ends all listens as the protocol specifies.
func (b *Subscribers) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for l := range b.listens {
		l.end(nil)
	}
}

// Count returns how many listens and sessions there are.
func (b *Subscribers) Count() (listens, sessions int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.listens), len(b.sessions)
}
