package era

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"dragoman/adapters/rules"
	"dragoman/proxy/wire"
)

// visited stands for an elicitationId that was generated on the way, in the client's expected messages.
const visited = `"VISITED"`

// sealed stands for a cursor that was sealed on the way.
const sealed = `"SEALED"`

// page is a cursor: the client's and the server's.
type page struct{ client, server string }

// modelCall is one exchange: the client's request, what the server does, and what each must receive.
type modelCall struct {
	c       *chain
	q       *request
	level   string
	rounds  [][]*modelQuestion
	answers chan string // that the server receives

	id, nowToken string // of the client's current request: a retry has another one
	halved       bool   // a retry has left out an answer

	mu  sync.Mutex
	due []string // expected messages of the client, in order

	// used by the server's goroutine
	token    string // as the server sees it
	round    int
	progress int
	visits   int
	next     string // the cursor it gives out, as written
	state    string // requestState of the round before, as written
	given    string // the answers to it
}

// modelQuestion is one question of the server.
type modelQuestion struct {
	nonce, key, id string
	method         string
	params         obj
	answer         obj
	url            bool
}

func (d *modelCall) plan() {
	g := d.c.g
	d.answers, d.id, d.nowToken = make(chan string, 16), d.q.id, d.q.token
	if d.c.caps == "{}" || !rules.Askable(d.q.method) || g.chance(50) {
		return
	}
	for range 1 + g.IntN(3) {
		var round []*modelQuestion
		for range 1 + g.IntN(3) {
			round = append(round, d.newQuestion())
		}
		d.rounds = append(d.rounds, round)
	}
}

func (d *modelCall) newQuestion() *modelQuestion {
	g := d.c.g
	g.n++
	n := strconv.Itoa(g.n)
	x := &modelQuestion{nonce: n, key: "k" + n + g.words(), id: pick(g, n, quote("s-"+n)), answer: g.object(2)}
	p := append(g.object(2), mem("x-nonce", quote(n)))
	switch g.IntN(4) {
	case 0:
		x.method, x.url = "elicitation/create", true
		p = append(p, mem("mode", `"url"`), mem("message", g.str()), mem("url", quote("https://x.example/"+n)), mem("elicitationId", `"own"`))
	case 1:
		x.method = "elicitation/create"
		p = append(p, mem("message", g.str()), mem("requestedSchema", `{"type":"object","properties":{"a":{"oneOf":[{"const":1,"title":"t"}],"default":9007199254740993}}}`))
		if g.chance(50) {
			p = append(p, mem("mode", `"form"`))
		}
	case 2:
		x.method = "sampling/createMessage"
		p = append(p, mem("maxTokens", "5"), mem("messages", `[{"role":"user","content":[{"type":"text","text":"a"},{"type":"vendor"}]}]`), mem("tools", "[]"))
	default:
		x.method = "roots/list"
		x.answer = append(x.answer, mem("roots", `[{"uri":"file:///a","name":"\u0061"}]`))
	}
	if g.chance(20) {
		p = append(p, mem("_meta", g.object(1).text()), mem("task", "{}"))
	}
	if x.method == "elicitation/create" {
		x.answer = append(x.answer, mem("action", pick(g, `"accept"`, `"decline"`, `"cancel"`)), mem("content", g.object(1).text()))
	}
	if g.chance(20) {
		x.answer = append(x.answer, mem("_meta", "{}"), mem("resultType", `"complete"`))
	}
	x.params, x.answer = g.shuffled(p), g.shuffled(x.answer)
	return x
}

// asked is the question as the client sees it.
func (x *modelQuestion) asked() obj { return x.params.without("_meta", "task", "elicitationId") }

// said is the answer as the server sees it.
func (x *modelQuestion) said() string { return x.answer.without("_meta", "resultType").text() }

func (d *modelCall) clientMeta() obj {
	g := d.c.g
	if !d.c.modern {
		return g.meta(true, d.q.token)
	}
	m := g.meta(false, d.q.token)
	if g.chance(20) {
		m = append(m, mem(wire.MetaPrefix+"subscriptionId", "7"), mem(wire.MetaPrefix+"serverInfo", "{}"))
	}
	return g.shuffled(append(m, d.envelope()...))
}

func (d *modelCall) envelope() obj {
	o := obj{mem(wire.MetaPrefix+"protocolVersion", `"2026-07-28"`), mem(wire.MetaPrefix+"clientInfo", clientInfo), mem(wire.MetaPrefix+"clientCapabilities", d.c.caps)}
	if d.c.level != "" {
		o = append(o, mem(wire.MetaPrefix+"logLevel", quote(d.c.level)))
	}
	return o
}

// expect adds to the client's expected messages.
func (d *modelCall) expect(raw string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.due = append(d.due, compact([]byte(raw)))
}

// serve is the server's part: all of the call at a legacy server, one request at a modern one.
func (d *modelCall) serve(m *wire.Message, say func(raw []byte)) {
	g := newGen(d.q.seed + uint64(d.round))
	g.n = 1000 * (d.round + 1)
	d.seen(m)
	id := string(m.Of(m.ID))
	if d.c.modern {
		d.notify(g, say)
		if d.round < len(d.rounds) {
			d.require(g, id, say)
			return
		}
		d.respond(g, id, say)
		return
	}
	for _, round := range d.rounds {
		d.notify(g, say)
		open := map[string]string{}
		for _, x := range round {
			o := obj{mem("jsonrpc", `"2.0"`), mem("id", x.id), mem("method", quote(x.method)), mem("params", x.params.text())}
			open[`{"jsonrpc":"2.0","id":`+x.id+`,"result":`+x.said()+"}"] = x.nonce
			if x.url {
				d.visits++
			}
			say(g.spaced(g.shuffled(o).text(), false))
		}
		for range round {
			raw := compact([]byte(<-d.answers))
			if _, ok := open[raw]; !ok {
				d.c.bad("the server is answered %s, and awaits %v", raw, open)
			}
			delete(open, raw)
		}
	}
	d.notify(g, say)
	for range d.visits {
		d.expect(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":` + visited + `}}`)
	}
	d.respond(g, id, say)
}

// require ends a request at a modern server with questions.
func (d *modelCall) require(g *gen, id string, say func(raw []byte)) {
	var requests, answers obj
	for _, x := range d.rounds[d.round] {
		o := obj{mem("method", quote(x.method)), mem("params", x.params.text())}
		requests = append(requests, pair{x.key, g.written(x.key), g.shuffled(o).text()})
		answers = append(answers, mem(x.key, x.said()))
	}
	d.given, d.state = answers.text(), ""
	result := append(g.object(1), mem("resultType", `"input_required"`), mem("inputRequests", requests.text()))
	if g.chance(70) {
		d.state = g.str()
		result = append(result, mem("requestState", d.state))
	}
	d.round++ // before the client has it
	say(g.spaced(obj{mem("jsonrpc", `"2.0"`), mem("id", id), mem("result", g.shuffled(result).text())}.text(), false))
}

// notify sends notifications in the call, of which the client must get those that concern it.
func (d *modelCall) notify(g *gen, say func(raw []byte)) {
	for range g.IntN(4) {
		params := g.object(2)
		var o obj
		pass, own := false, ""
		switch g.IntN(3) {
		case 0:
			if d.token == "" {
				continue
			}
			d.progress++
			params = g.shuffled(append(params, mem("progressToken", d.token), mem("progress", strconv.Itoa(d.progress))))
			o = append(o, mem("method", `"notifications/progress"`))
			if pass = d.nowToken != ""; pass {
				own = params.with("progressToken", d.nowToken).text()
			}
		case 1:
			level := pick(g, rules.LogLevels...)
			params = g.shuffled(append(params, mem("level", quote(level)), mem("data", g.value(2))))
			o = append(o, mem("method", `"notifications/message"`))
			pass, own = d.level != "" && slices.Index(rules.LogLevels, level) >= slices.Index(rules.LogLevels, d.level), params.text()
		default:
			o = append(o, mem("method", `"notifications/x-vendor"`))
		}
		o = g.shuffled(append(o, mem("jsonrpc", `"2.0"`), mem("params", params.text()), g.unknown(1)))
		if pass {
			d.expect(o.with("params", own).text())
		}
		say(g.spaced(o.text(), false))
	}
}

// respond ends the call with a result or an error.
func (d *modelCall) respond(g *gen, id string, say func(raw []byte)) {
	c, q := d.c, d.q
	top := obj{mem("jsonrpc", `"2.0"`), mem("id", id)}
	if g.chance(20) {
		top = append(top, g.unknown(1))
	}
	if g.chance(25) {
		f := g.failure(q.uri)
		got, anew := f.down(q.method, q.uri)
		if c.modern {
			got, anew = f.up(q.method, q.uri)
		}
		sent := g.shuffled(append(top, mem("error", f.o.text())))
		want := sent.with("id", d.id).with("error", got)
		if anew {
			want = obj{mem("jsonrpc", `"2.0"`), mem("id", d.id), mem("error", got)}
		}
		d.expect(want.text())
		say(g.spaced(sent.text(), false))
		return
	}
	o := g.result(q.method)
	var m obj
	if g.chance(50) {
		m = g.meta(true, "")
		o = slices.Insert(o, g.IntN(len(o)+1), mem("_meta", m.text()))
	}
	sent := g.shuffled(append(top, mem("result", o.text())))
	d.expect(sent.with("id", d.id).with("result", d.outcome(o, m).text()).text())
	if o.has("structuredContent") { // it may become text
		say([]byte(sent.text()))
		return
	}
	say(g.spaced(sent.text(), false))
}

// outcome is the client's expected result for a result with this _meta.
func (d *modelCall) outcome(o, m obj) obj {
	left := survives(d.q.method, o, d.c.version)
	kept := m.without(wire.MetaPrefix + "serverInfo")
	if at := left.find("nextCursor"); at >= 0 {
		d.next = left[at].value
		left = left.with("nextCursor", sealed)
	}
	if d.c.modern {
		left = left.with("resultType", `"complete"`)
		if rules.Cacheable(d.q.method) {
			left = left.with("ttlMs", "0").with("cacheScope", `"private"`)
		}
		if len(kept) == 0 && len(m) > 0 {
			left = left.without("_meta") // and anew, at the end
		}
		return left.with("_meta", kept.with(wire.MetaPrefix+"serverInfo", compact([]byte(serverInfo))).text())
	}
	if len(kept) == 0 {
		return left.without("_meta")
	}
	return left.with("_meta", kept.text())
}

// find finds the question with the nonce that a client sees.
func (d *modelCall) find(raw []byte, params wire.Span) *modelQuestion {
	nonce := string(wire.Get(raw, params, "x-nonce").Text(raw))
	for _, round := range d.rounds {
		for _, x := range round {
			if x.nonce == nonce {
				return x
			}
		}
	}
	d.c.bad("nobody has asked %s", params.Of(raw))
	return d.newQuestion()
}

// answer is a legacy client's part in a question.
func (d *modelCall) answer(m *wire.Message) {
	x := d.find(m.Raw, m.Params)
	want := x.asked()
	if x.url {
		want = want.with("elicitationId", string(wire.Get(m.Raw, m.Params, "elicitationId").Of(m.Raw)))
	}
	id := string(m.Of(m.ID))
	d.c.same("the question", string(m.Raw), `{"jsonrpc":"2.0","id":`+id+`,"method":`+quote(x.method)+`,"params":`+want.text()+"}")
	raw := d.c.g.shuffled(obj{mem("jsonrpc", `"2.0"`), mem("id", id), mem("result", x.answer.text())}).text()
	d.c.client.take(d.c.g.spaced(raw, true), nil, nil)
}

// retry is a modern client's part: it calls again with all or some of its answers, as another request.
func (d *modelCall) retry(m *wire.Message) {
	g, q := d.c.g, d.q
	var answers obj
	for k, v := range wire.Members(m.Raw, m.InputRequests) {
		at := wire.Get(m.Raw, v, "params")
		x := d.find(m.Raw, at)
		d.c.same("the question", string(v.Of(m.Raw)), `{"method":`+quote(x.method)+`,"params":`+x.asked().text()+"}")
		answers = append(answers, mem(string(k.Text(m.Raw)), x.answer.text()))
	}
	if answers = g.shuffled(answers); !d.halved && len(answers) > 0 && g.chance(20) {
		d.halved, answers = true, append(answers[1:], mem("r9-9", "{}"))
	}
	info := wire.Get(m.Raw, m.Meta, wire.MetaPrefix+"serverInfo").Of(m.Raw)
	if compact(info) != compact([]byte(serverInfo)) {
		d.c.bad("serverInfo of a question: %s", info)
	}
	again := *q
	d.id = g.id()
	again.id, again.seed = d.id, g.Uint64()
	again.params = g.shuffled(append(q.params.without("inputResponses", "requestState"), mem("inputResponses", answers.text()),
		mem("requestState", string(m.Of(wire.Get(m.Raw, m.Result, "requestState"))))))
	if d.nowToken = ""; g.chance(60) {
		d.nowToken = g.id()
	}
	g.addMeta(&again, g.shuffled(append(g.meta(false, d.nowToken), d.envelope()...)))
	raw := again.whole(again.full(), true).text()
	d.c.client.take(g.spaced(raw, true), nil, func(raw []byte) { d.c.received <- string(raw) })
}

// done reports expected messages that the client has not got.
func (d *modelCall) done() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.due) > 0 && !d.c.t.Failed() {
		d.c.bad("the client did not get %s", strings.Join(d.due, "\n"))
	}
	if len(d.answers) > 0 {
		d.c.bad("an answer too many")
	}
}
