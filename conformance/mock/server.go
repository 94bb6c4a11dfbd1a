package mock

import (
	"crypto/rand"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"dragoman/conformance/peer"
)

// pingID is the id of the mock's ping, pongTime how long the response waits for its answer.
const (
	pingID   = "mock-ping"
	pongTime = 2 * time.Second
)

// ServeHTTP is the server of a scenario.
func (r *run) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	raw, err := io.ReadAll(io.LimitReader(q.Body, maxBody))
	if err != nil {
		return
	}
	h := &heard{verb: q.Method, header: q.Header.Clone(), body: string(raw), at: time.Since(r.began)}
	h.message, _ = peer.ReadMessage(h.body)
	r.mu.Lock()
	if len(r.all) >= maxRequests {
		r.mu.Unlock()
		http.Error(w, "more requests than a scenario takes", http.StatusTooManyRequests)
		return
	}
	r.all = append(r.all, h)
	id := q.Header.Get("Mcp-Session-Id")
	_, known := r.lost[id]
	forgotten := r.lost[id]
	if known {
		h.session = id
	}
	r.mu.Unlock()
	watched := &recorder{ResponseWriter: w, h: h}
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

// recorder notes the status.
type recorder struct {
	http.ResponseWriter
	h *heard
}

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(status int) { w.h.status = status; w.ResponseWriter.WriteHeader(status) }

// Unwrap lets http.ResponseController through.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements http.ResponseWriter.
func (w *recorder) Write(p []byte) (int, error) {
	if w.h.status == 0 {
		w.h.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// get is the stream of a legacy session: it waits for the end, or brings what a stream had not yet brought.
func (r *run) get(w http.ResponseWriter, q *http.Request, h *heard) {
	if r.scenario.Name == "tools_call" { // a server without a stream
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(w, ": open\n\n")
	if q.Header.Get("Last-Event-Id") == "s-1" {
		r.mu.Lock()
		var call *heard
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
func (r *run) post(w http.ResponseWriter, h *heard, id string, forgotten bool) {
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
		if string(h.message.ID) == `"`+pingID+`"` && r.first("pong") {
			close(r.pong)
		}
		w.WriteHeader(http.StatusAccepted)
		return
	case r.face.Modern() && !r.modern(w, h):
		return
	case opens:
		r.open(w, h)
	case h.message.Method == "tools/call" && r.scenario.call != nil && r.scenario.call(r, w, h):
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

// modern demands what a modern server must, so that a client which leaves it out fails here as it does elsewhere.
func (r *run) modern(w http.ResponseWriter, h *heard) bool {
	version := h.header.Get("Mcp-Protocol-Version")
	body := peer.Text(h.message.Params(), "_meta", peer.MetaVersion)
	switch {
	case version == "" || body != "" && body != version:
		r.refuse(w, h, http.StatusBadRequest, -32020, "Header mismatch: MCP-Protocol-Version")
	case version != r.revision:
		r.refuse(w, h, http.StatusBadRequest, -32022, "Unsupported protocol version", `{"supported":["`+r.revision+`"],"requested":`+peer.Encode(version)+`}`)
	case body == "":
		r.refuse(w, h, http.StatusBadRequest, -32602, "Missing "+peer.MetaVersion)
	default:
		return true
	}
	return false
}

// open gives a new session its id, and the revision.
func (r *run) open(w http.ResponseWriter, h *heard) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.agreed = r.revision
	if r.scenario.older != "" {
		r.agreed = r.scenario.older
	}
	if !r.scenario.sessions {
		return
	}
	r.sessions++
	id := "mock-" + strconv.Itoa(r.sessions) + "-" + rand.Text()
	r.lost[id] = false
	h.session = id
	w.Header().Set("Mcp-Session-Id", id)
}

// response is the response to a request.
func response(h *heard, result string) string {
	return `{"jsonrpc":"2.0","id":` + string(h.message.ID) + `,"result":` + result + `}`
}

// json answers with a result, as JSON or as a stream.
func (r *run) json(w http.ResponseWriter, h *heard, result string) {
	text := response(h, result)
	h.answer = text
	if r.scenario.streams {
		w.Header().Set("Content-Type", "text/event-stream")
		first, rest := r.streamed(h, text)
		_, _ = io.WriteString(w, first)
		if strings.Contains(first, pingID) {
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.pong:
			case <-time.After(pongTime):
			case <-r.ended:
			}
		}
		_, _ = io.WriteString(w, rest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, text)
}

// refuse answers with an error.
func (r *run) refuse(w http.ResponseWriter, h *heard, status, code int, message string, data ...string) {
	more := ""
	if len(data) > 0 {
		more = `,"data":` + strings.Join(data, "")
	}
	id := ""
	if h.message.ID != nil && h.message.Method != "" {
		id = `"id":` + string(h.message.ID) + ","
	}
	h.answer = `{"jsonrpc":"2.0",` + id + `"error":{"code":` + strconv.Itoa(code) + `,"message":` + peer.Encode(message) + more + `}}`
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, h.answer)
}
