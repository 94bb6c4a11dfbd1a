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
	maxHeard = 4096        // requests of a trial that are remembered
	restTime = time.Second // for the body of a response that no check has read
)

// hearing remembers what was asked without a conversation, so that what answers it can be held against its shape.
type hearing struct {
	mu    sync.Mutex
	asked map[string]asked // by id
}

// asked is a request.
type asked struct {
	method string
	// at is the revision that it names itself; empty: none.
	at string
}

// note remembers the requests of a text that is sent. An id that is used again, for something else, tells nothing any more.
func (h *hearing) note(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range messagesOf(text) {
		if m.ID == nil || m.Method == "" || len(h.asked) >= maxHeard {
			continue
		}
		if h.asked == nil {
			h.asked = make(map[string]asked)
		}
		now := asked{m.Method, peer.Text(m.Params(), "_meta", peer.MetaVersion)}
		if before, there := h.asked[string(m.ID)]; there && before != now {
			now = asked{}
		}
		h.asked[string(m.ID)] = now
	}
}

func (h *hearing) of(id json.RawMessage) asked {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked[string(id)]
}

// messagesOf are those of a text: one, or those of an array. What is no object is left out.
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

// hear has the messages of a response judged, and the body read at the end of the trial if no check has done so.
func (t *Trial) hear(sent peer.Request, res *peer.Response) {
	t.Cleanup(res.Close)
	if t.judge == nil || t.Face == peer.REST {
		return
	}
	t.heard.note(sent.Body)
	whole := hearing{}
	whole.note(sent.Body)
	res.Heard = func(text string) {
		for _, m := range messagesOf(text) {
			// A body beside an error need not be a message, nor need what answers anything but a POST to the endpoint.
			if _, named := m.Object["jsonrpc"]; named || res.Streams() || res.Status == 200 && sent.Method == "" && sent.URL == "" {
				t.overheard(m, &whole)
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

// lines is a watcher of a program: what it writes is judged. Lines that are no messages are for checks to see.
func (t *Trial) lines(watch peer.Watcher) peer.Watcher {
	if t.judge == nil {
		return watch
	}
	return func(direction byte, where, text string) {
		watch(direction, where, text)
		if direction == '>' {
			t.heard.note(text)
			return
		}
		for _, m := range messagesOf(text) {
			t.overheard(m, &t.heard)
		}
	}
}

// overheard judges a message that came outside of conversations. first knows the request that it answers best.
func (t *Trial) overheard(m peer.Message, first *hearing) {
	request := asked{}
	if m.Kind() == peer.IsResponse {
		if request = first.of(m.ID); request.method == "" {
			request = t.heard.of(m.ID)
		}
	}
	revision := t.Revision
	if slices.Contains(shape.Revisions(), request.at) {
		revision = request.at
	}
	revision = revisionOf(m, request.method, revision)
	if t.Face.Modern() && request.at == "" && !m.Failed() && revision == t.Revision {
		return // a server of both eras takes what names no revision as it likes
	}
	t.judge(m.Raw, revision, request.method)
}

// revisionOf is the revision of a message: what answers initialize is of the one that it names.
func revisionOf(m peer.Message, answers, revision string) string {
	if named := peer.Text(m.Result(), "protocolVersion"); answers == "initialize" && slices.Contains(shape.Revisions(), named) {
		return named
	}
	return revision
}
