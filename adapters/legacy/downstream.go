package legacy

import (
	"sync"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/mcphttp"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

// Downstream serves legacy streamable HTTP clients. It must be made by NewDownstream, and POST, GET and DELETE of a
// session must go to the same Downstream, which holds the records of its streams.
type Downstream struct {
	Handle    proxy.Handler
	Store     *session.Store
	Responses mcphttp.ResponseOptions

	records *records
}

// transportName is the Transport of the sessions opened here. It keeps them apart from HTTP+SSE sessions.
const transportName = "streamable-http"

// headerLast is the header with the id of the last event that a client has seen on a broken stream.
const headerLast = "Last-Event-ID"

// NewDownstream returns a handler for legacy clients that passes their requests to handle.
func NewDownstream(handle proxy.Handler, store *session.Store, responses mcphttp.ResponseOptions) *Downstream {
	resume := responses.Resume
	if resume.Usage == nil {
		resume.Usage = new(session.Usage)
	}
	d := &Downstream{Store: store, records: &records{resume: &resume, of: make(map[*proxy.Session]*session.Events)}}
	return d.With(handle, responses)
}

// With returns a handler for the same sessions and streams that replaces d. The settings of recorded streams stay:
// responses.Resume is ignored.
func (d *Downstream) With(handle proxy.Handler, responses mcphttp.ResponseOptions) *Downstream {
	// All errors of a live legacy request are sent with 200: official clients read a JSON-RPC error there only.
	responses.Leaves, responses.Status = false, func(int) int { return fasthttp.StatusOK }
	responses.Resume = *d.records.resume
	return &Downstream{Handle: handle, Store: d.Store, Responses: responses, records: d.records}
}

// Post implements mcphttp.EraHandler.
func (d *Downstream) Post(p *mcphttp.Post) (plan mcphttp.Plan) {
	m := &p.Msg
	if m.Is("initialize") && m.Kind == wire.Request {
		return d.initialize(p)
	}
	sess := d.session(p.Ctx, p.Server, p.Caller, m.Of(m.ID))
	if sess == nil {
		return plan
	}
	switch m.Kind {
	case wire.Batch:
		return d.batch(p, sess)
	case wire.Request:
		ex := proxy.Borrow()
		ex.Msg, ex.Key, ex.Caller, ex.Arrival = *m, p.Key, p.Caller, p.Arrival
		plan.Exchange, plan.Session, plan.Handle = ex, sess, d.Handle
		plan.Options, plan.Record = &d.Responses, d.records.recordOf(sess)
	default:
		d.deliver(sess, &proxy.Exchange{Msg: *m, Caller: p.Caller})
		mcphttp.Accepted(p.Ctx)
	}
	return plan
}

// deliver delivers a notification, or the answer to a question.
func (d *Downstream) deliver(sess *proxy.Session, ex *proxy.Exchange) {
	d.records.answered(sess, &ex.Msg)
	session.Deliver(sess, ex, d.Handle)
}

// session returns the session that a request names, after checking the revision in its header. If there is none, it has
// answered with the error and returns nil. A request that names no session gets the error with its id. For an unknown or
// ended session the error has no id: with the id, clients would take it for the failure of the request and not open a new
// session.
func (d *Downstream) session(ctx *fasthttp.RequestCtx, server string, caller proxy.Caller, id []byte) *proxy.Session {
	fields := httpserver.FieldsOf(ctx)
	name, more := fields.Only(mcphttp.HeaderSession)
	if len(name) == 0 {
		mcphttp.Fail(ctx, fasthttp.StatusBadRequest, id, proxy.Errf(proxy.SessionMissing,
			"header %s is missing; send initialize to open a session", mcphttp.HeaderSession))
		return nil
	}
	if more { // two readers could choose different values
		mcphttp.Fail(ctx, fasthttp.StatusBadRequest, id, proxy.Errf(proxy.InvalidRequest, "header %s occurs more than once", mcphttp.HeaderSession))
		return nil
	}
	sess := d.Store.Find(name, server, caller)
	if sess == nil || sess.Transport != transportName {
		mcphttp.Fail(ctx, fasthttp.StatusNotFound, nil, proxy.Errf(proxy.SessionUnknown,
			"no such session; send initialize without %s to open one", mcphttp.HeaderSession))
		return nil
	}
	if v := fields.Peek(mcphttp.HeaderVersion); len(v) > 0 && !rules.KnownLegacy(v) {
		mcphttp.Fail(ctx, fasthttp.StatusBadRequest, id, proxy.Errf(proxy.InvalidRequest,
			"header %s names revision %q, which this session does not speak", mcphttp.HeaderVersion, v))
		return nil
	}
	return sess
}

// initialize opens a session. The session id is sent with the result only: one client takes a repeated header with
// another value for the end of its session.
func (d *Downstream) initialize(p *mcphttp.Post) (plan mcphttp.Plan) {
	m := &p.Msg
	if name := httpserver.FieldsOf(p.Ctx).Peek(mcphttp.HeaderSession); len(name) > 0 {
		if d.session(p.Ctx, p.Server, p.Caller, m.Of(m.ID)) != nil {
			mcphttp.Fail(p.Ctx, fasthttp.StatusOK, m.Of(m.ID), proxy.Errf(proxy.InvalidRequest, "this session is initialized already"))
		}
		return plan
	}
	sess, err := d.Store.Create(transportName, p.Server, p.Caller)
	if err != nil {
		plan.Exchange, plan.Options = &proxy.Exchange{Msg: *m, Caller: p.Caller, Arrival: p.Arrival, Server: p.Server}, &d.Responses
		plan.Handle = func(ex *proxy.Exchange) (proxy.Replies, error) { return nil, d.Store.Refuse(ex, err) }
		return plan
	}
	responses := d.Responses
	responses.Patience = responses.Cap // the answer is JSON, so that the session id is known when the head is written
	plan.Exchange, plan.Options = &proxy.Exchange{Msg: *m, Caller: p.Caller, Arrival: p.Arrival}, &responses
	plan.Handle = func(ex *proxy.Exchange) (proxy.Replies, error) {
		replies, err := session.Run(sess, ex, d.Handle)
		return session.Handshake(replies), err
	}
	plan.Settle = func(ctx *fasthttp.RequestCtx) {
		if sess.State() != proxy.Initialized {
			d.Store.Remove(sess)
			return
		}
		ctx.Response.Header.Set(mcphttp.HeaderSession, sess.ID)
	}
	return plan
}

// batch serves an array of messages (revision 2025-03-26). The requests run one after the other, and each response is an
// event of its own.
func (d *Downstream) batch(p *mcphttp.Post, sess *proxy.Session) (plan mcphttp.Plan) {
	if !rules.HasBatches(sess.Client().Version) {
		mcphttp.Fail(p.Ctx, fasthttp.StatusBadRequest, nil, proxy.Errf(proxy.InvalidRequest,
			"arrays of messages exist in revision 2025-03-26 only; this session speaks %s", sess.Client().Version))
		return plan
	}
	all, err := split(p)
	if err != nil {
		mcphttp.Fail(p.Ctx, fasthttp.StatusBadRequest, nil, err)
		return plan
	}
	run := make(map[*proxy.Exchange]proxy.Handler)
	for _, ex := range all {
		if ex.Msg.Kind != wire.Request {
			d.deliver(sess, ex)
			continue
		}
		plan.Batch = append(plan.Batch, ex)
		run[ex] = session.Enter(sess, ex, d.Handle) // entered together, so that a waiting request can be cancelled too
	}
	if len(plan.Batch) == 0 {
		mcphttp.Accepted(p.Ctx)
		return plan
	}
	plan.Handle = func(ex *proxy.Exchange) (proxy.Replies, error) { return run[ex](ex) }
	plan.Options, plan.Record = &d.Responses, d.records.recordOf(sess)
	return plan
}

// split returns the elements of an array, in order.
func split(p *mcphttp.Post) (all []*proxy.Exchange, err *proxy.Error) {
	m := &p.Msg
	seen := map[string]bool{}
	for i, s := range wire.Items(m.Raw, m.Whole()) {
		one, serr := wire.Scan(s.Of(m.Raw))
		switch {
		case i >= rules.MaxBatch:
			return nil, proxy.Errf(proxy.InvalidRequest, "more than %d messages in one array", rules.MaxBatch)
		case serr != nil:
			return nil, proxy.Errf(proxy.InvalidRequest, "element %d of the array is no message: %w", i, serr)
		case one.Kind == wire.Batch: // nested messages would not be checked
			return nil, proxy.Errf(proxy.InvalidRequest, "element %d of the array is an array", i)
		case one.Is("initialize"):
			return nil, proxy.Errf(proxy.InvalidRequest, "initialize must not be in an array")
		case one.Kind == wire.Request:
			id := string(one.Of(one.ID))
			if seen[id] {
				return nil, proxy.Errf(proxy.DuplicateID, "two requests of the array have the id %s", id)
			}
			seen[id] = true
		}
		ex := &proxy.Exchange{Msg: one, Caller: p.Caller, Arrival: p.Arrival}
		ex.ID() // chosen now: the head of the answer is sent before they are served
		all = append(all, ex)
	}
	if len(all) == 0 {
		return nil, proxy.Errf(proxy.InvalidRequest, "an empty array")
	}
	return all, nil
}

// Get opens the session's stream for messages that belong to no request. A newer stream replaces an older one. With
// Last-Event-ID it resumes the stream of that event: the session's own stream, or the answer to a request. An unknown
// event id is not refused: the client then gets new messages only.
func (d *Downstream) Get(ctx *fasthttp.RequestCtx) {
	if refusedModern(ctx) {
		return
	}
	if !mcphttp.Accepts(httpserver.FieldsOf(ctx).Peek("Accept"), "text/event-stream") {
		mcphttp.Fail(ctx, fasthttp.StatusNotAcceptable, nil, proxy.Errf(proxy.NotAcceptable, "Accept must list text/event-stream"))
		return
	}
	sess := d.session(ctx, mcphttp.ServerOf(ctx), mcphttp.CallerOf(ctx), nil)
	if sess == nil {
		return
	}
	if err := d.open(ctx, sess); err != nil {
		mcphttp.Fail(ctx, fasthttp.StatusServiceUnavailable, nil, proxy.Errf(proxy.TooManySessions, "too many streams are open; raise limits.streams"))
	}
}

func (d *Downstream) open(ctx *fasthttp.RequestCtx, sess *proxy.Session) error {
	record, resume := d.records.recordOf(sess), &d.Responses.Resume
	if record.Events == nil {
		return mcphttp.Open(ctx, sess, nil, nil)
	}
	last, after := record.Events.Find(httpserver.FieldsOf(ctx).Peek(headerLast))
	if last != nil && !last.Own() {
		return resume.OpenResumed(ctx, last, after)
	}
	return resume.OpenRecorded(ctx, sess, func() (*session.Stream, uint64) {
		if last != nil {
			return last, after
		}
		return record.Events.Open(true), 0
	}, record.Polls)
}

// Delete ends the session that the request names, and answers 204.
func (d *Downstream) Delete(ctx *fasthttp.RequestCtx) {
	if refusedModern(ctx) {
		return
	}
	if sess := d.session(ctx, mcphttp.ServerOf(ctx), mcphttp.CallerOf(ctx), nil); sess != nil {
		d.Store.Remove(sess)
		ctx.SetStatusCode(fasthttp.StatusNoContent)
	}
}

// refusedModern refuses a request that names a modern revision, which has no method but POST.
func refusedModern(ctx *fasthttp.RequestCtx) bool {
	v := string(httpserver.FieldsOf(ctx).Peek(mcphttp.HeaderVersion))
	if v == "" || !rules.IsModern(v) {
		return false
	}
	ctx.Response.Header.Set("Allow", "POST")
	mcphttp.Fail(ctx, fasthttp.StatusMethodNotAllowed, nil, proxy.Errf(proxy.InvalidRequest, "the revision in %s has POST only", mcphttp.HeaderVersion))
	return true
}

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
	record.Events = session.NewEvents(sess, r.resume.Limits(), r.resume.Usage)
	r.of[sess] = record.Events
	r.mu.Unlock()
	record.Events.Start()
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
