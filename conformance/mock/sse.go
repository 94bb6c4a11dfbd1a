package mock

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// endpoint is the form in which a stream of HTTP+SSE names the URL for messages.
type endpoint int

const (
	fromRoot  endpoint = iota // a path
	wholeURL                  // an absolute URL
	fromHere                  // relative to the stream's URL
	elsewhere                 // of another origin
)

// ssePath returns the path of the stream.
func (s *Scenario) ssePath() string {
	if s.endpoint == fromHere {
		return "/base/sse"
	}
	return "/sse"
}

func (s *Scenario) messagesPath() string { return strings.TrimSuffix(s.ssePath(), "sse") + "messages" }

// announced returns the data of the endpoint event.
func (r *run) announced(session string) string {
	path := r.scenario.messagesPath() + "?sessionId=" + session
	switch r.scenario.endpoint {
	case wholeURL:
		return r.origin + path
	case fromHere:
		return strings.TrimPrefix(path, "/base/")
	case elsewhere:
		return r.foreign + path
	}
	return path
}

// sse handles a request over HTTP+SSE.
func (r *run) sse(w *recorder, q *http.Request, h *received) {
	switch {
	case q.Host != strings.TrimPrefix(r.origin, "http://"):
		h.stray = strayOrigin
		w.WriteHeader(http.StatusForbidden)
	case q.Method == http.MethodGet && q.URL.Path == r.scenario.ssePath():
		r.stream(w, q, h)
	case q.Method == http.MethodPost && q.URL.Path == r.scenario.messagesPath():
		r.posted(w, q, h)
	case q.Method == http.MethodPost && q.URL.Path == r.scenario.ssePath():
		r.mu.Lock()
		for _, d := range r.streams {
			if !d.isClosed() && h.message.Method != "server/discover" { // a probe may come at any time
				h.stray = "the stream's own URL"
			}
		}
		r.mu.Unlock()
		status := r.scenario.post
		if status == 0 {
			status = http.StatusMethodNotAllowed
		}
		w.WriteHeader(status)
	default:
		if q.Method == http.MethodPost {
			h.stray = "a path that no event has named"
		}
		w.WriteHeader(http.StatusNotFound)
	}
}

// stream opens a session and serves its stream.
func (r *run) stream(w *recorder, q *http.Request, h *received) {
	d := &sseStream{w: w, left: make(chan struct{}), odd: r.scenario.streams}
	r.mu.Lock()
	h.session = rand.Text()
	r.streams[h.session] = d
	r.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	r.recordAnswer(h, "event: endpoint, data: "+r.announced(h.session))
	d.write("event: endpoint\ndata: " + r.announced(h.session) + "\n\n")
	select {
	case <-q.Context().Done():
	case <-r.ended:
	case <-d.left:
	}
	d.close()
}

// posted handles a message; the answer goes to the stream.
func (r *run) posted(w *recorder, q *http.Request, h *received) {
	id := q.URL.Query().Get("sessionId")
	r.mu.Lock()
	d := r.streams[id]
	if d == nil {
		h.stray = "an endpoint that no event has named"
	} else {
		h.session = id
	}
	r.mu.Unlock()
	switch {
	case d == nil || d.isClosed():
		w.WriteHeader(http.StatusNotFound)
		return
	case h.message.Object == nil:
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	_, _ = io.WriteString(w, "Accepted")
	r.work.Go(func() { r.handle(d, h) })
}

// sseStream is an open stream.
type sseStream struct {
	left chan struct{}
	odd  bool // messages come with everything that a stream may contain

	mu     sync.Mutex
	w      http.ResponseWriter
	count  int
	gone   bool
	leaves bool
}

func (d *sseStream) write(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone {
		return
	}
	_, _ = io.WriteString(d.w, text)
	_ = http.NewResponseController(d.w).Flush()
}

func (d *sseStream) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone = true
}

func (d *sseStream) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.gone || d.leaves
}

// sendMessage implements channel.
func (d *sseStream) sendMessage(text string) {
	if !d.odd {
		d.write("event: message\ndata: " + text + "\n\n")
		return
	}
	d.mu.Lock()
	d.count++
	n := d.count
	d.mu.Unlock()
	// A comment, and a message in two data lines, with each end that a line may have.
	before, after, _ := strings.Cut(text, `,"`)
	end := []string{"\n", "\r\n"}[n%2]
	d.write(fmt.Sprintf(": no. %[1]d%[2]sid: %[1]d%[2]sevent: message%[2]sdata: %[3]s%[2]sdata:,\"%[4]s%[2]s%[2]s", n, end, before, after))
}

// writeNoise implements channel: a comment.
func (d *sseStream) writeNoise(string) { d.write(": still there\n\n") }

// terminate implements channel: the stream ends.
func (d *sseStream) terminate(int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.leaves {
		d.leaves = true
		close(d.left)
	}
}

// speaksSSE reports whether the client has opened a stream of HTTP+SSE.
func (r *run) speaksSSE() bool {
	for _, h := range r.by(http.MethodGet) {
		if h.session != "" {
			return true
		}
	}
	return false
}

var _, _ channel = (*sseStream)(nil), (*process)(nil)

// recorder records the status of a response.
type recorder struct {
	http.ResponseWriter
	r *run
	h *received
}

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(status int) {
	w.r.mu.Lock()
	w.h.status = status
	w.r.mu.Unlock()
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements http.ResponseWriter.
func (w *recorder) Write(p []byte) (int, error) {
	w.r.mu.Lock()
	if w.h.status == 0 {
		w.h.status = http.StatusOK
	}
	w.r.mu.Unlock()
	return w.ResponseWriter.Write(p)
}

// strayOrigin marks requests to another origin than the stream's.
const strayOrigin = "another origin than the stream's"
