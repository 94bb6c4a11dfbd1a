package suite

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-json"

	"dragoman/conformance/peer"
	"dragoman/conformance/shape"
)

const (
	maxLogged = 4096        // requests of a trial that are kept
	restTime  = time.Second // timeout for the body of a response that no check has read
)

// requestLog keeps raw requests, so that the schema of their answers is known.
type requestLog struct {
	mu       sync.Mutex
	requests map[string]loggedRequest // by id
}

// loggedRequest is a request.
type loggedRequest struct {
	method string
	// at is the revision in the request; empty: none.
	at string
}

// add keeps the requests in a sent text. An id that is used again for another request identifies none.
func (h *requestLog) add(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range messagesOf(text) {
		if m.ID == nil || m.Method == "" || len(h.requests) >= maxLogged {
			continue
		}
		if h.requests == nil {
			h.requests = make(map[string]loggedRequest)
		}
		now := loggedRequest{m.Method, peer.Text(m.Params(), "_meta", peer.MetaVersion)}
		if before, there := h.requests[string(m.ID)]; there && before != now {
			now = loggedRequest{}
		}
		h.requests[string(m.ID)] = now
	}
}

func (h *requestLog) find(id json.RawMessage) loggedRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.requests[string(id)]
}

// messagesOf returns the message in a text, or those of an array, without values that are not objects.
func messagesOf(text string) (out []peer.Message) {
	raws := []json.RawMessage{json.RawMessage(text)}
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		raws = nil
		_ = json.Unmarshal([]byte(text), &raws) // what cannot be read has no messages
	}
	for _, raw := range raws {
		if m, err := peer.ReadMessage(string(raw)); err == nil && m.Object != nil {
			out = append(out, m)
		}
	}
	return out
}

// watchResponse judges the messages of a response. At the end of the trial it reads a body that no check has read.
func (t *Trial) watchResponse(sent peer.Request, res *peer.Response) {
	t.Cleanup(res.Close)
	if t.judge == nil || t.Face == peer.REST {
		return
	}
	t.sent.add(sent.Body)
	whole := requestLog{}
	whole.add(sent.Body)
	res.OnText = func(text string) {
		for _, m := range messagesOf(text) {
			// The body of an HTTP error need not be a message, nor need an answer to anything but a POST to the endpoint.
			if _, named := m.Object["jsonrpc"]; named || res.Streams() || res.Status == 200 && sent.Method == "" && sent.URL == "" {
				t.judgeMessage(m, &whole)
			}
		}
	}
	if res.Streams() || res.Type != "application/json" {
		return
	}
	t.Cleanup(func() {
		if res.Whole() {
			return
		}
		late := time.AfterFunc(restTime, res.Close)
		_, _ = res.Text()
		late.Stop()
	})
}

// watchLines judges what a program writes. Lines that are not messages are left to the checks.
func (t *Trial) watchLines(watch peer.Watcher) peer.Watcher {
	if t.judge == nil {
		return watch
	}
	return func(direction byte, where, text string) {
		watch(direction, where, text)
		if direction == '>' {
			t.sent.add(text)
			return
		}
		for _, m := range messagesOf(text) {
			t.judgeMessage(m, &t.sent)
		}
	}
}

// judgeMessage judges a message of a raw exchange. It looks for its request in first, then in all requests of the trial.
func (t *Trial) judgeMessage(m peer.Message, first *requestLog) {
	request := loggedRequest{}
	if m.Kind() == peer.IsResponse {
		if request = first.find(m.ID); request.method == "" {
			request = t.sent.find(m.ID)
		}
	}
	revision := t.Revision
	if slices.Contains(shape.Revisions(), request.at) {
		revision = request.at
	}
	revision = revisionOf(m, request.method, revision)
	if t.Face.Modern() && request.at == "" && !m.Failed() && revision == t.Revision {
		return // a server of both eras may choose the revision of a request that names none
	}
	t.judge(m.Raw, revision, request.method)
}

// revisionOf returns the revision of a message: the result of initialize has that which it names.
func revisionOf(m peer.Message, answers, revision string) string {
	if named := peer.Text(m.Result(), "protocolVersion"); answers == "initialize" && slices.Contains(shape.Revisions(), named) {
		return named
	}
	return revision
}
