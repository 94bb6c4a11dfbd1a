package everything

import (
	"sync"

	"dragoman/proxy"
)

// maxWatched is how many resources one session or one listen may watch, maxListens how many listens may be open.
const (
	maxWatched = 1000
	maxListens = 1024
)

// notice is a change: of the resource at uri or, if that is empty, of the list of topic.
type notice struct {
	topic topic
	uri   string
}

// method returns the method of the notification.
func (n notice) method() string {
	if n.uri != "" {
		return "notifications/resources/updated"
	}
	return "notifications/" + n.topic.String() + "/list_changed"
}

// message returns the notification, raw JSON. meta is the _meta of its params, raw JSON, or empty.
func (n notice) message(meta string) []byte {
	uri := ""
	if n.uri != "" {
		uri = quote(n.uri)
	}
	params := object("uri", uri, "_meta", meta)
	if params == "{}" {
		params = ""
	}
	return []byte(object("jsonrpc", `"2.0"`, "method", quote(n.method()), "params", params))
}

// subscribers holds the receivers of change notifications: modern listens, and legacy sessions. A session receives the
// changes of every list and of its subscribed resources. publish never waits for a client.
type subscribers struct {
	mu       sync.Mutex
	closed   bool
	listens  map[*listen]struct{}
	sessions map[*proxy.Session]map[string]struct{} // subscribed URIs
}

func newSubscribers() subscribers {
	return subscribers{listens: map[*listen]struct{}{}, sessions: map[*proxy.Session]map[string]struct{}{}}
}

// join subscribes a session to changes of lists until it ends.
func (b *subscribers) join(s *proxy.Session) {
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

func (b *subscribers) part(s *proxy.Session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sessions, s)
}

// watch subscribes a session to a resource; false if it has too many subscriptions.
func (b *subscribers) watch(s *proxy.Session, uri string) bool {
	b.join(s)
	b.mu.Lock()
	defer b.mu.Unlock()
	uris, known := b.sessions[s]
	if !known {
		return true // the session has ended
	}
	if _, has := uris[uri]; !has && len(uris) >= maxWatched {
		return false
	}
	uris[uri] = struct{}{}
	return true
}

func (b *subscribers) unwatch(s *proxy.Session, uri string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sessions[s], uri)
}

// open adds a listen.
func (b *subscribers) open(l *listen) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return shutDown()
	}
	if len(b.listens) >= maxListens {
		return proxy.Errf(proxy.Overloaded, "%d listens are open, which is the limit", maxListens)
	}
	b.listens[l] = struct{}{}
	return nil
}

func (b *subscribers) leave(l *listen) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.listens, l)
}

// publish notifies all interested listens and sessions.
func (b *subscribers) publish(n notice) {
	b.mu.Lock()
	for l := range b.listens {
		l.tell(n)
	}
	told := make([]*proxy.Session, 0, len(b.sessions))
	for s, uris := range b.sessions {
		if _, watched := uris[n.uri]; watched || n.uri == "" {
			told = append(told, s)
		}
	}
	b.mu.Unlock()
	msg := n.message("")
	for _, s := range told { // without the lock: a session that ends here calls part
		s.Keep(n.method()+" "+n.uri, msg)
	}
}

// close ends all listens as the protocol specifies.
func (b *subscribers) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for l := range b.listens {
		l.end(nil)
	}
}
