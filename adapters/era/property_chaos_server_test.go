package era

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// backend is the server of a chaos world. The tag of a call and the seed decide what it does with it.
type backend struct {
	w      *world
	modern bool
	piped  bool
	aside  bool // questions come on the stream outside of calls
	slow   time.Duration
	flaky  int // percent of the dials that fail

	mu            sync.Mutex
	conversations []*conversation
	runs          map[string]int // first calls, by tag
	live          int            // jobs
	open          int            // links
}

// conversation is one conversation with the server.
type conversation struct {
	b     *backend
	n     int
	sink  transport.Sink
	kill  func(later error)
	lose  func(err error) // nil: the link has no stream that would show it
	aside func(raw []byte)
	over  chan struct{}
	group sync.WaitGroup

	mu    sync.Mutex
	ended bool
	asks  bool            // the client has declared that it can be asked
	jobs  map[string]*job // by id
	asked map[string]*query
	next  int
	gen   *gen
}

// query is one question.
type query struct {
	answer         chan *wire.Message
	answered, moot bool // moot: its answer is not awaited any more
}

// job is one call.
type job struct {
	c         *conversation
	tag, id   string
	key       string // among the jobs of the conversation
	say       func(raw []byte)
	token     string
	state     string
	given     string // inputResponses
	method    string
	cancelled chan struct{}
	once      sync.Once
}

func (b *backend) dial(_ context.Context, sink transport.Sink) (transport.Link, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := &conversation{b: b, n: len(b.conversations), sink: sink, over: make(chan struct{}), jobs: map[string]*job{}, asked: map[string]*query{}}
	c.gen = newGen(b.w.seed<<20 + uint64(c.n))
	if c.gen.chance(b.flaky) {
		b.conversations = append(b.conversations, c)
		return nil, proxy.Errf(proxy.Unreachable, "nobody is there")
	}
	server := proxy.Legacy
	if b.modern {
		server = proxy.Modern
	}
	b.open++
	b.conversations = append(b.conversations, c)
	b.w.note("server: conversation %d", c.n)
	closed := func() {
		b.mu.Lock()
		b.open--
		b.mu.Unlock()
		b.w.note("server: conversation %d closed", c.n)
	}
	if b.piped {
		p := newPipe(server, c, sink)
		c.kill, c.aside, p.onEnd = p.kill, p.send, closed
		return p, nil
	}
	l := newStreams(server, c, sink)
	c.kill, l.onEnd = l.kill, closed
	if b.modern { // a link without state: later calls find a restarted server
		c.kill = func(error) { c.crash(l) }
	} else {
		c.lose = l.lose
	}
	c.aside = l.send
	return l, nil
}

// crash breaks off all calls in flight.
func (c *conversation) crash(l *streams) {
	c.mu.Lock()
	for _, j := range c.jobs {
		j.cancel()
	}
	c.mu.Unlock()
	l.breakOff(proxy.Errf(proxy.Lost, "the connection broke"))
}

func (c *conversation) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

func (c *conversation) end() {
	c.mu.Lock()
	was := c.ended
	c.ended = true
	if !was {
		close(c.over)
	}
	c.mu.Unlock()
}

func (c *conversation) take(raw []byte, _ []proxy.Header, say func(raw []byte)) func() {
	m, err := wire.Scan(bytes.Clone(raw))
	if err != nil {
		c.b.w.bad("no message: %s", raw)
		return func() {}
	}
	id := string(m.Of(m.ID))
	switch {
	case m.IsResponse():
		c.answered(&m)
	case m.Is("notifications/cancelled"):
		c.mu.Lock()
		j := c.jobs[string(m.Of(m.RequestID))]
		c.mu.Unlock()
		if j != nil {
			j.cancel()
		}
	case m.Kind != wire.Request:
	case m.Is("initialize"):
		c.mu.Lock()
		c.asks = rules.AnyQuestion(m.Of(m.ParamsCaps))
		c.mu.Unlock()
		say(proxy.ResultMessage([]byte(id), []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"logging":{}},"serverInfo":{"name":"s","version":"1"}}`)).Raw)
	case m.Is("server/discover"):
		say(proxy.ResultMessage([]byte(id), []byte(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"logging":{}},"ttlMs":0,"cacheScope":"private"}`)).Raw)
	case m.Is("ping"), m.Is("logging/setLevel"):
		say(proxy.ResultMessage([]byte(id), []byte("{}")).Raw)
	default:
		return c.begin(&m, id, say)
	}
	return func() {}
}

// begin starts a job.
func (c *conversation) begin(m *wire.Message, id string, say func(raw []byte)) func() {
	j := &job{c: c, id: id, say: say, tag: tagOf(m), token: string(m.Of(m.Token)), method: string(m.Text(m.Method)), cancelled: make(chan struct{}),
		given: string(m.Of(m.InputResponses)), state: string(m.Text(m.ReqState))}
	if j.tag == "" {
		c.b.w.bad("a call without a tag: %s", m.Raw)
		return func() {}
	}
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return func() {}
	}
	if j.key = id; c.b.modern && !c.b.piped { // over modern HTTP the clients choose the ids
		c.next++
		j.key = strconv.Itoa(c.next)
	}
	if c.jobs[j.key] != nil {
		c.b.w.bad("id %s twice in conversation %d", id, c.n)
	}
	c.jobs[j.key] = j
	c.group.Go(j.run)
	c.mu.Unlock()
	c.b.mu.Lock()
	c.b.live++
	if j.state == "" {
		if c.b.runs[j.tag]++; c.b.runs[j.tag] > 1 && (j.method == "tools/call" || c.b.runs[j.tag] > 4) { // all others have no effects: at most twice for each of two translations
			c.b.w.bad("%s %s runs %d times", j.method, j.tag, c.b.runs[j.tag])
		}
	}
	c.b.mu.Unlock()
	c.b.w.note("server %d: %s %s, state %q", c.n, j.method, j.tag, j.state)
	return func() {
		if !c.b.piped {
			j.cancel()
		}
	}
}

// tagOf reads the tag of a call from the place that its method has for it.
func tagOf(m *wire.Message) string {
	if t := wire.Get(m.Raw, m.Arguments, "tag").Text(m.Raw); t != nil {
		return string(t)
	}
	if t := m.Text(m.Cursor); t != nil {
		return string(t)
	}
	_, tag, _ := strings.Cut(string(m.Text(m.URI)), ":")
	return tag
}

// cancel reaches the job after a delay, as over a network.
func (j *job) cancel() {
	j.once.Do(func() {
		if j.c.b.slow == 0 {
			close(j.cancelled)
			return
		}
		time.AfterFunc(j.c.b.slow, func() { close(j.cancelled) })
	})
}

// answered delivers the answer to a question: each has one.
func (c *conversation) answered(m *wire.Message) {
	kept, err := m.Clone()
	c.mu.Lock()
	q := c.asked[string(m.Of(m.ID))]
	again := q != nil && q.answered
	if q != nil {
		q.answered = true
	}
	over := c.ended
	c.mu.Unlock()
	switch {
	case err != nil || q == nil:
		c.b.w.bad("server %d is answered what it did not ask: %s", c.n, m.Raw)
	case over:
	case again:
		if c.b.w.relays == 0 { // a legacy client may answer twice, which is its own fault
			c.b.w.bad("server %d is answered twice: %s", c.n, m.Raw)
		}
	default:
		q.answer <- &kept
	}
}

// gone waits for a time, and returns true if the job is over before.
func (j *job) gone(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return false
	case <-j.cancelled:
	case <-j.c.over:
	}
	return true
}

func (j *job) run() {
	b := j.c.b
	g := newGen(b.w.seed<<20 ^ hash(j.tag+j.state))
	how := j.work(g)
	j.c.mu.Lock()
	delete(j.c.jobs, j.key)
	j.c.mu.Unlock()
	b.mu.Lock()
	b.live--
	b.mu.Unlock()
	b.w.note("server %d: %s %s", j.c.n, j.tag, how)
}

func hash(s string) (h uint64) {
	for i := range len(s) {
		h = h*1099511628211 + uint64(s[i])
	}
	return h
}

// work runs the job and returns how it ended.
func (j *job) work(g *gen) string {
	if j.method == "subscriptions/listen" {
		j.say([]byte(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + j.id + `},"notifications":{"toolsListChanged":true}}}`))
		select {
		case <-j.cancelled:
		case <-j.c.over:
		}
		return "listened"
	}
	round := 0
	if j.state != "" {
		if ok := j.retried(&round); !ok {
			return "retried wrongly"
		}
	}
	for range g.IntN(4) {
		if gone := j.step(g); gone {
			return "was cancelled, or the conversation is over"
		}
	}
	if j.c.b.modern && round < 3 && askableByTag(j) && g.chance(50) {
		j.require(g, round+1)
		return "asks"
	}
	return j.finish(g)
}

func askableByTag(j *job) bool {
	return strings.Contains(j.tag, "+") && (j.method == "tools/call" || j.method == "prompts/get" || j.method == "resources/read")
}

// step is one action of a server in a call.
func (j *job) step(g *gen) (gone bool) {
	switch g.IntN(5) {
	case 0:
		if j.token != "" {
			j.say(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"message":%q}}`, j.token, g.IntN(9), j.tag))
		}
	case 1:
		j.say(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":%q}}`, j.tag))
	case 2:
		return j.gone(time.Duration(g.IntN(30)) * time.Millisecond)
	default:
		if !j.c.b.modern && askableByTag(j) {
			return j.inquire(g)
		}
	}
	return false
}

// inquire asks one to three questions, and waits for the answers to all of them.
func (j *job) inquire(g *gen) (gone bool) {
	open := map[string]*query{}
	defer func() {
		j.c.mu.Lock()
		defer j.c.mu.Unlock()
		for _, q := range open {
			q.moot = true
		}
	}()
	for range 1 + g.IntN(3) {
		id, q := j.c.ask(g, j.tag, func(raw []byte) {
			if j.c.b.aside {
				j.c.aside(raw)
				return
			}
			j.say(raw)
		})
		open[id] = q
	}
	impatient := g.chance(15)
	for id, q := range open {
		var late <-chan time.Time
		if impatient {
			late = time.After(time.Duration(g.IntN(40)) * time.Millisecond)
		}
		select {
		case m := <-q.answer:
			j.c.judge(m, id, j.tag)
		case <-late:
			raw := cancellation([]byte(id))
			if j.c.b.aside {
				j.c.aside(raw)
			} else {
				j.say(raw)
			}
		case <-j.cancelled:
			return true
		case <-j.c.over:
			return true
		}
	}
	return false
}

// ask asks one question; its answer must contain its nonce.
func (c *conversation) ask(g *gen, tag string, say func(raw []byte)) (id string, q *query) {
	c.mu.Lock()
	c.next++
	id = strconv.Itoa(1000*c.n + c.next)
	if c.next%3 == 0 {
		id = quote("q" + id)
	}
	q = &query{answer: make(chan *wire.Message, 1)}
	c.asked[id] = q
	c.mu.Unlock()
	mark := fmt.Sprintf(`"x-tag":%q,"x-q":%q`, tag, id)
	method, params := pickQuestion(g, mark)
	c.b.w.note("server %d: %q asks %s", c.n, tag, id)
	say([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `}}`))
	return id, q
}

func pickQuestion(g *gen, mark string) (method, params string) {
	switch g.IntN(3) {
	case 0:
		return "roots/list", mark
	case 1:
		return "sampling/createMessage", mark + `,"messages":[],"maxTokens":1`
	}
	return "elicitation/create", mark + `,"message":"m","requestedSchema":{"type":"object","properties":{}}`
}

// judge checks that an answer belongs to this question.
func (c *conversation) judge(m *wire.Message, id, tag string) {
	if m.Kind != wire.Result {
		return // refused, or the client's error
	}
	if q, t := string(wire.Get(m.Raw, m.Result, "q").Text(m.Raw)), string(wire.Get(m.Raw, m.Result, "tag").Text(m.Raw)); q != id || t != tag {
		c.b.w.bad("server %d: question %s of %q is answered with %s", c.n, id, tag, m.Raw)
	}
}

// require ends a request at a modern server with questions, or with a state only.
func (j *job) require(g *gen, round int) {
	requests := ""
	n := 1 + g.IntN(3)
	if g.chance(10) {
		n = 0
	}
	for i := range n {
		method, params := pickQuestion(g, fmt.Sprintf(`"x-tag":%q,"x-q":"k%d-%d"`, j.tag, round, i))
		if i > 0 {
			requests += ","
		}
		requests += fmt.Sprintf(`"k%d-%d":{"method":%q,"params":{%s}}`, round, i, method, params)
	}
	j.say(proxy.ResultMessage([]byte(j.id), fmt.Appendf(nil, `{"resultType":"input_required","inputRequests":{%s},"requestState":"%s|%d|%d"}`, requests, j.tag, round, n)).Raw)
}

// retried checks a retry: the state is that of this call, and the answers belong to its questions.
func (j *job) retried(round *int) bool {
	parts := strings.Split(j.state, "|")
	if len(parts) != 3 || parts[0] != j.tag {
		j.c.b.w.bad("call %s comes back with state %q", j.tag, j.state)
		return false
	}
	*round, _ = strconv.Atoi(parts[1])
	given := []byte(j.given)
	m := wire.Message{Raw: given}
	if len(given) == 0 {
		return true
	}
	for k, v := range wire.Members(given, m.Whole()) {
		key := string(k.Text(given))
		if !strings.HasPrefix(key, "k"+parts[1]+"-") {
			continue // the server checks the keys of a modern client
		}
		if q, t := string(wire.Get(given, v, "q").Text(given)), string(wire.Get(given, v, "tag").Text(given)); q != key || t != j.tag {
			j.c.b.w.bad("call %s: question %s is answered with %s", j.tag, key, v.Of(given))
			return false
		}
	}
	return true
}

// finish ends the call in one of the possible ways.
func (j *job) finish(g *gen) string {
	switch k := g.IntN(100); {
	case k < 8:
		select {
		case <-j.cancelled:
		case <-j.c.over:
		}
		return "was never answered"
	case k < 12:
		j.c.kill(proxy.Errf(proxy.Lost, "the server has ended"))
		return "ended the server"
	case k < 16:
		lost := proxy.Errf(proxy.SessionLost, "the server has forgotten the session")
		j.c.kill(lost)
		if g.chance(50) && j.c.lose != nil {
			j.c.lose(lost) // as a GET stream would show
		}
		return "made the server forget"
	case k < 26:
		j.say([]byte(`{"jsonrpc":"2.0","id":` + j.id + `,"error":{"code":-32000,"message":` + quote(j.tag) + `}}`))
		return "failed"
	}
	j.say(proxy.ResultMessage([]byte(j.id), []byte(`{"content":[],"tag":`+quote(j.tag)+`}`)).Raw)
	return "answered"
}
