package testkit

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// Held is a request whose answer the test gives when it likes.
type Held struct {
	Body   string
	Status chan int      // takes the status of the answer
	Events chan string   // takes the data of events, if the answer is an event stream
	Gone   chan struct{} // closed when the client has its answer or has given up
}

// HoldingServer is an HTTP server that holds requests. It ends with the test.
type HoldingServer struct {
	URL   string
	Conns atomic.Int32 // open connections
	over  chan struct{}
}

// NewHoldingServer starts a server, whose handler calls Hold or Stream for the requests that wait.
func NewHoldingServer(t *testing.T, handler http.HandlerFunc) *HoldingServer {
	t.Helper()
	s := &HoldingServer{over: make(chan struct{})}
	srv := httptest.NewUnstartedServer(handler)
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			s.Conns.Add(1)
		case http.StateClosed:
			s.Conns.Add(-1)
		}
	}
	srv.Start()
	s.URL = srv.URL
	t.Cleanup(func() { close(s.over); srv.Close() })
	return s
}

// Hold passes a request with the given body to the test, and answers it as the test says. An answer to GET with status 200 is an event stream.
func (s *HoldingServer) Hold(w http.ResponseWriter, r *http.Request, body []byte, to chan<- *Held) {
	h := &Held{Body: string(body), Status: make(chan int, 1), Events: make(chan string, 10), Gone: make(chan struct{})}
	defer close(h.Gone)
	to <- h
	select {
	case status := <-h.Status:
		if r.Method == http.MethodGet && status == http.StatusOK {
			s.Stream(w, r, "", h.Events)
			return
		}
		w.WriteHeader(status)
	case <-r.Context().Done():
	case <-s.over:
	}
}

// Stream answers with an event stream: first, and then an event for each text, until the client leaves.
func (s *HoldingServer) Stream(w http.ResponseWriter, r *http.Request, first string, events <-chan string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, first)
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case event := <-events:
			_, _ = fmt.Fprintf(w, "data: %s\n\n", event)
		case <-r.Context().Done():
			return
		case <-s.over:
			return
		}
	}
}
