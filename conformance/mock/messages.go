package mock

import (
	"strconv"

	"dragoman/conformance/peer"
)

// pingID is the id of the mock's ping.
const (
	pingID   = "mock-ping"
	pingText = `{"jsonrpc":"2.0","id":"` + pingID + `","method":"ping"}`
)

// channel carries all messages to a client: the output of a process, or the stream of HTTP+SSE.
type channel interface {
	// sendMessage sends a message.
	sendMessage(text string)
	// writeNoise writes something that is not a message, if the transport allows it.
	writeNoise(text string)
	// terminate ends the channel; a process exits with the code.
	terminate(code int)
}

// handle handles a message from a channel. It may wait for other messages.
func (r *run) handle(c channel, h *received) {
	switch h.message.Kind() {
	case peer.Neither:
		if all := r.batch(h.body); all != nil {
			for _, one := range all {
				r.handle(c, &received{verb: h.verb, body: one.Raw, message: one, session: h.session, at: h.at})
			}
			return
		}
		r.reply(c, h, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"}}`)
	case peer.IsResponse:
		r.happens("answer " + string(h.message.ID))
	case peer.IsNotification:
		if id, err := peer.ReadMessage(h.body); err == nil && h.message.Method == "notifications/cancelled" {
			r.happens("cancelled " + h.session + " " + peer.Encode(peer.Get(id.Params(), "requestId")))
		}
	default:
		r.request(c, h)
	}
}

// batch returns the messages of a batch, which only 2025-03-26 has; nil if the line is not one.
func (r *run) batch(line string) (all []peer.Message) {
	v, err := peer.Decode(line)
	list, ok := v.([]any)
	if err != nil || !ok || r.revision != peer.R2503 {
		return nil
	}
	for _, one := range list {
		m, err := peer.ReadMessage(peer.Encode(one))
		if err != nil || m.Kind() == peer.Neither {
			return nil
		}
		all = append(all, m)
	}
	return all
}

// reply sends a message in answer to another.
func (r *run) reply(c channel, h *received, text string) {
	r.recordAnswer(h, text)
	c.sendMessage(text)
}

// request answers a request on a channel.
func (r *run) request(c channel, h *received) {
	s, m := r.scenario, h.message.Method
	switch {
	case m == "initialize" && !r.face.Modern():
		r.agree()
	case s.mute && r.isAgreed() == "":
		return
	case m == "server/discover" && !r.face.Modern() && s.probe != 0:
		r.reply(c, h, failure(h, s.probe, "not now", ""))
		return
	case r.face.Modern():
		if code, message, data := r.rejection(h); code != 0 {
			r.reply(c, h, failure(h, code, message, data))
			return
		}
	}
	switch {
	case m == "tools/call" && s.crashes && r.first("crash"):
		c.terminate(1)
		return
	case m == "subscriptions/listen" && r.face == peer.ModernStdio:
		r.serveListen(c, h)
		return
	case m == "tools/call" && s.slow:
		for _, text := range r.before(h) {
			r.reply(c, h, text)
		}
		cancelled := "cancelled " + h.session + " " + string(h.message.ID)
		r.await(r.slow, cancelled)
		if r.face.Modern() && r.has(cancelled) {
			return // a modern server sends nothing more for it; a legacy one may not know of the cancellation yet
		}
	case m == "tools/call" && s.asks && r.first("asks"):
		r.askAll(func(text string) { r.reply(c, h, text) })
	case s.streams:
		r.sendNoise(c, h)
	}
	result := r.result(h)
	if result == "" {
		r.reply(c, h, failure(h, -32601, "Method not found", ""))
		return
	}
	r.reply(c, h, response(h, result))
	if s.loses && m == "tools/list" && r.first("lost") {
		c.terminate(0)
	}
}

// noiseLines is the number of lines that a noisy server writes to stderr: more than a pipe holds.
const noiseLines = 4000

// sendNoise sends what may come before a response.
func (r *run) sendNoise(c channel, h *received) {
	if r.first("noise") {
		for i := range noiseLines {
			c.writeNoise("ERROR no. " + strconv.Itoa(i) + ", which is none: a server may write anything here")
		}
	}
	c.writeNoise("at " + h.message.Method)
	for _, text := range r.before(h) {
		r.reply(c, h, text)
	}
	if r.pings(h) {
		r.reply(c, h, pingText)
		r.await(r.patience, `answer "`+pingID+`"`)
	}
}

// serveListen answers subscriptions/listen on the shared output: the acknowledgement, and one change that was asked for.
func (r *run) serveListen(c channel, h *received) {
	tag := `"_meta":{"` + peer.MetaSubscription + `":` + string(h.message.ID) + `}`
	honoured, wants := "{}", peer.Get(h.message.Params(), "notifications", "toolsListChanged") == true
	if wants {
		honoured = `{"toolsListChanged":true}`
	}
	r.reply(c, h, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":`+honoured+`,`+tag+`}}`)
	if wants && r.first("changed") {
		r.reply(c, h, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{`+tag+`}}`)
	}
}

// rejection returns the error for a modern request that lacks something; code 0 if it is sound.
func (r *run) rejection(h *received) (code int, message, data string) {
	version := peer.Text(h.message.Params(), "_meta", peer.MetaVersion)
	switch {
	case version == "" && h.message.Method == "initialize": // a client of other revisions
		return r.unsupported(peer.Text(h.message.Params(), "protocolVersion"))
	case version == "":
		return -32602, "Missing " + peer.MetaVersion, ""
	case version != r.revision || r.scenario.refused != "":
		return r.unsupported(version)
	}
	return 0, "", ""
}

// unsupported returns the error that lists the revisions of a modern server.
func (r *run) unsupported(version string) (code int, message, data string) {
	supported := r.revision
	if r.scenario.refused != "" {
		supported = r.scenario.refused
	}
	return -32022, "Unsupported protocol version", `{"supported":["` + supported + `"],"requested":` + peer.Encode(version) + `}`
}

// agree negotiates the revision of a legacy session.
func (r *run) agree() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.agreed = r.revision
	if r.scenario.older != "" {
		r.agreed = r.scenario.older
	}
}

func (r *run) isAgreed() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.agreed
}

// has reports whether the named event has happened.
func (r *run) has(what string) bool {
	select {
	case <-r.when(what):
		return true
	default:
		return false
	}
}

// question is a request of the mock to a client.
type question struct {
	id, method, capability string // capability: what declares it; empty: every client, or none, answers it
}

// askAll sends a legacy client every request that a server may send, all at once, and waits for the answers. Two pairs of ids differ only in type.
func (r *run) askAll(say func(text string)) {
	const sample = `{"messages":[{"role":"user","content":{"type":"text","text":"Say hello"}}],"maxTokens":10}`
	const form = `{"message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}`
	r.ask(say, question{`"1"`, "x-nobody-knows/this", ""}, "{}")
	r.ask(say, question{`1`, "roots/list", "roots"}, "")
	r.ask(say, question{`2`, "sampling/createMessage", "sampling"}, sample)
	if r.revision >= peer.R2506 {
		r.ask(say, question{`"2"`, "elicitation/create", "elicitation"}, form)
	}
	r.ask(say, question{`0`, "ping", ""}, "")
	var all []string
	for _, q := range r.questions {
		all = append(all, "answer "+q.id)
	}
	r.await(r.patience, all...)
}

func (r *run) ask(say func(text string), q question, params string) {
	r.mu.Lock()
	r.questions = append(r.questions, q)
	r.mu.Unlock()
	if params != "" {
		params = `,"params":` + params
	}
	say(`{"jsonrpc":"2.0","id":` + q.id + `,"method":"` + q.method + `"` + params + `}`)
}

// asked returns the method of the question with an id; "" if there was none.
func (r *run) asked(id string) string {
	if id == `"`+pingID+`"` {
		return "ping"
	}
	for _, q := range r.questions {
		if q.id == id {
			return q.method
		}
	}
	return ""
}

// response returns the response to a request.
func response(h *received, result string) string {
	return `{"jsonrpc":"2.0","id":` + string(h.message.ID) + `,"result":` + result + `}`
}

// failure returns an error response; data may be empty. The answer to a message without an id has none.
func failure(h *received, code int, message, data string) string {
	id := ""
	if h.message.ID != nil && h.message.Method != "" {
		id = `"id":` + string(h.message.ID) + ","
	}
	if data != "" {
		data = `,"data":` + data
	}
	return `{"jsonrpc":"2.0",` + id + `"error":{"code":` + strconv.Itoa(code) + `,"message":` + peer.Encode(message) + data + `}}`
}
