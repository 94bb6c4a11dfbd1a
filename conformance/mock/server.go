package mock

import (
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"dragoman/conformance/peer"
)

// withHTTP starts the server of a scenario and runs the client against its URL.
func (r *run) withHTTP(ctx context.Context, o *Options) error {
	srv := &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	var served sync.WaitGroup
	origins := []*string{&r.origin}
	if r.scenario.endpoint == elsewhere {
		origins = append(origins, &r.foreign)
	}
	for _, origin := range origins {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			_ = srv.Close()
			served.Wait()
			return err
		}
		*origin = "http://" + l.Addr().String()
		served.Go(func() { _ = srv.Serve(l) })
	}
	url := r.origin + "/mcp"
	if r.face == peer.SSE {
		url = r.origin + r.scenario.ssePath()
	}
	err := r.client(ctx, o.Argv, url, nil, func() {})
	close(r.ended)
	_ = srv.Shutdown(ctx)
	_ = srv.Close()
	served.Wait()
	r.mu.Lock()
	r.shut = true
	r.mu.Unlock()
	r.work.Wait()
	return err
}

// enter counts a request in progress. It returns false if the run is over.
func (r *run) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shut {
		return false
	}
	r.work.Add(1)
	return true
}

// ServeHTTP is the server of a scenario.
func (r *run) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if !r.enter() {
		return
	}
	defer r.work.Done()
	raw, err := io.ReadAll(io.LimitReader(q.Body, maxBody))
	if err != nil {
		return
	}
	h := &received{verb: q.Method, header: q.Header.Clone(), path: q.URL.RequestURI(), body: string(raw)}
	if !r.record(h) {
		http.Error(w, "more requests than a scenario takes", http.StatusTooManyRequests)
		return
	}
	watched := &recorder{ResponseWriter: w, r: r, h: h}
	if r.face == peer.SSE {
		r.sse(watched, q, h)
		return
	}
	r.mu.Lock()
	id := q.Header.Get("Mcp-Session-Id")
	forgotten, known := r.lost[id]
	if known {
		h.session = id
	}
	r.mu.Unlock()
	switch {
	case q.Method == http.MethodPost:
		r.post(watched, h, id, forgotten)
	case r.face.Modern():
		w.Header().Set("Allow", "POST")
		watched.WriteHeader(http.StatusMethodNotAllowed)
	case q.Method == http.MethodDelete:
		watched.WriteHeader(http.StatusOK)
	case q.Method == http.MethodGet:
		r.get(watched, q, h)
	default:
		watched.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// get serves the stream of a legacy session until the end, or the rest of a stream that ended early.
func (r *run) get(w http.ResponseWriter, q *http.Request, h *received) {
	if r.scenario.Name == "tools_call" { // a server without a stream
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(w, ": open\n\n")
	if q.Header.Get("Last-Event-Id") == "s-1" {
		r.mu.Lock()
		var call *received
		for _, x := range r.requests("tools/call") {
			call = x
			break
		}
		r.mu.Unlock()
		if call != nil {
			h.answer = response(call, r.result(call))
			_, _ = io.WriteString(w, "id: s-2\ndata: "+h.answer+"\n\n")
		}
		return
	}
	_ = http.NewResponseController(w).Flush()
	select {
	case <-q.Context().Done():
	case <-r.ended:
	}
}

// post answers a message.
func (r *run) post(w http.ResponseWriter, h *received, id string, forgotten bool) {
	legacy := !r.face.Modern()
	opens := h.message.Method == "initialize" && legacy
	switch {
	case h.message.Object == nil:
		r.refuse(w, h, http.StatusBadRequest, -32700, "Parse error")
		return
	case legacy && r.scenario.sessions && !opens && (h.session == "" || forgotten):
		if id == "" {
			r.refuse(w, h, http.StatusBadRequest, -32000, "Bad Request: Mcp-Session-Id header is required")
		} else {
			r.refuse(w, h, http.StatusNotFound, -32001, "Session not found")
		}
		return
	case h.message.Kind() != peer.IsRequest:
		if h.message.Kind() == peer.IsResponse {
			r.happens("answer " + string(h.message.ID))
		}
		w.WriteHeader(http.StatusAccepted)
		return
	case r.face.Modern() && !r.modern(w, h):
		return
	case opens:
		r.open(w, h)
	case h.message.Method == "tools/call" && r.scenario.call != nil && r.scenario.call(r, w, h):
		return
	case h.message.Method == "tools/call" && r.scenario.asks && r.first("asks"):
		r.askDuring(w, h)
		return
	}
	result := r.result(h)
	if result == "" {
		status := http.StatusOK
		if r.face.Modern() {
			status = http.StatusNotFound
		}
		r.refuse(w, h, status, -32601, "Method not found")
		return
	}
	r.json(w, h, result)
	if r.scenario.loses && h.message.Method == "tools/list" && r.first("lost") {
		r.mu.Lock()
		r.lost[h.session] = true
		r.mu.Unlock()
	}
}

// modern refuses requests that a modern server must refuse.
func (r *run) modern(w http.ResponseWriter, h *received) bool {
	version := h.header.Get("Mcp-Protocol-Version")
	body := peer.Text(h.message.Params(), "_meta", peer.MetaVersion)
	switch {
	case version == "" || body != "" && body != version:
		r.refuse(w, h, http.StatusBadRequest, -32020, "Header mismatch: MCP-Protocol-Version")
	case version != r.revision || r.scenario.refused != "":
		code, message, data := r.unsupported(version)
		r.refuse(w, h, http.StatusBadRequest, code, message, data)
	case body == "":
		r.refuse(w, h, http.StatusBadRequest, -32602, "Missing "+peer.MetaVersion)
	default:
		return true
	}
	return false
}

// open opens a session with an id and a revision.
func (r *run) open(w http.ResponseWriter, h *received) {
	r.agree()
	if !r.scenario.sessions {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions++
	id := "mock-" + strconv.Itoa(r.sessions) + "-" + rand.Text()
	r.lost[id] = false
	h.session = id
	w.Header().Set("Mcp-Session-Id", id)
}

// askDuring sends requests to the client on the stream of its call, and then the response.
func (r *run) askDuring(w http.ResponseWriter, h *received) {
	w.Header().Set("Content-Type", "text/event-stream")
	say := func(text string) {
		r.recordAnswer(h, text)
		_, _ = io.WriteString(w, "data: "+text+"\n\n")
		_ = http.NewResponseController(w).Flush()
	}
	r.askAll(say)
	say(response(h, r.result(h)))
}

// json answers with a result, as JSON or as a stream.
func (r *run) json(w http.ResponseWriter, h *received, result string) {
	text := response(h, result)
	h.answer = text
	if r.scenario.streams {
		w.Header().Set("Content-Type", "text/event-stream")
		first, rest := r.streamed(h, text)
		_, _ = io.WriteString(w, first)
		if strings.Contains(first, pingID) {
			_ = http.NewResponseController(w).Flush()
			r.await(r.patience, `answer "`+pingID+`"`)
		}
		_, _ = io.WriteString(w, rest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, text)
}

// refuse answers with an error.
func (r *run) refuse(w http.ResponseWriter, h *received, status, code int, message string, data ...string) {
	h.answer = failure(h, code, message, strings.Join(data, ""))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, h.answer)
}
