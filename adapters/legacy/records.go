package legacy

import (
	"sync"

	"dragoman/adapters/mcphttp"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

// records holds the stream records of the sessions. A record is made with the session's first stream and removed with the
// session.
type records struct {
	resume *mcphttp.Resume
	mu     sync.Mutex
	of     map[*proxy.Session]*session.Events
}

// recordOf returns the record of sess, creating it if needed; the zero Recording if streams are not recorded.
func (r *records) recordOf(sess *proxy.Session) mcphttp.Recording {
	if r.resume.Events <= 0 {
		return mcphttp.Recording{}
	}
	record := mcphttp.Recording{Polls: rules.CanPoll(sess.Client().Version)}
	r.mu.Lock()
	record.Events = r.of[sess]
	if record.Events != nil {
		r.mu.Unlock()
		return record
	}
	made := session.NewEvents(sess, r.resume.Limits(), r.resume.Usage)
	r.of[sess], record.Events = made, made
	r.mu.Unlock()
	made.Start()
	sess.OnEnd(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.of, sess)
	})
	return record
}

// answered records that a client has answered a question, if m is a response.
func (r *records) answered(sess *proxy.Session, m *wire.Message) {
	if !m.IsResponse() {
		return
	}
	r.mu.Lock()
	events := r.of[sess]
	r.mu.Unlock()
	if events != nil {
		events.Answered(m.Of(m.ID))
	}
}
