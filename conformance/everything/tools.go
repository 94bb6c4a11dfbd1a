package everything

import (
	"math"
	"slices"
	"strconv"

	"dragoman/adapters/rules"
	"dragoman/conformance/everything/arguments"
	"dragoman/conformance/everything/calls"
	"dragoman/conformance/everything/changes"
	"dragoman/conformance/everything/content"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// tool is a tool. Exactly one of answer, run and script is set.
type tool struct {
	name, description string
	input             string // inputSchema, JSON; empty for no arguments
	output            string // outputSchema, JSON; empty for none
	hints             string // annotations, JSON; empty for none
	mirrors           []mirror
	answer            func(*calls.Query) calls.Outcome
	run               func(*calls.Call) calls.Outcome
	script            *calls.Script // questions to the client
}

const (
	noArguments = `{"type":"object","properties":{}}`
	readOnly    = `{"readOnlyHint":true}`
)

// addTools sets the tools and their list.
func (s *Server) addTools(pageSize int) {
	table := slices.Concat(s.suiteTools(), suiteScripts(), s.changeTools(), s.demoTools(), demoScripts())
	table = append(table, tool{name: sometimes, description: "There only sometimes", hints: readOnly,
		answer: func(*calls.Query) calls.Outcome { return calls.Says("Here I am.") }})
	s.tools = make(map[string]*tool, len(table))
	items := make([]string, 0, len(table))
	for i := range table {
		t := &table[i]
		if t.input == "" {
			t.input = noArguments
		}
		s.tools[t.name] = t
		items = append(items, content.Object("name", content.Quote(t.name), "description", content.Quote(t.description),
			"inputSchema", t.input, "outputSchema", t.output, "annotations", t.hints))
	}
	s.setLists(changes.Tools, items, pageSize, shownTTL)
}

// call answers tools/call.
func (s *Server) call(ex *proxy.Exchange, m wire.Message) (proxy.Replies, error) {
	t, ok := s.tools[string(m.Text(m.Name))]
	if !ok || t.name == sometimes && !s.isShown(changes.Tools) {
		return refuse(&m, proxy.Errf(proxy.InvalidParams, "unknown tool: %s", m.Of(m.Name)))
	}
	q, refusal := s.runner.Query(ex, m)
	if refusal == nil && ex.Mirrors {
		refusal = checkMirrors(&q, t.mirrors, ex.Headers)
	}
	if refusal == nil {
		refusal = q.ReadLevel()
	}
	if refusal != nil {
		return refuse(&m, refusal)
	}
	s.called.Add(1)
	switch {
	case t.script != nil:
		return s.runner.Interview(ex, q, t.script)
	case t.answer != nil:
		return proxy.Reply(q.Message(t.answer(&q))), nil
	}
	return s.runner.Run(ex, q, t.run)
}

// audio returns an audio block if the client's revision has one, else a text that describes it.
func (s *Server) audio(q *calls.Query) string {
	if !q.Has(rules.AudioContent) {
		return content.Text("[audio, audio/wav]")
	}
	return content.Audio(s.wav)
}

// demoTools returns the tools for people and scripted clients.
func (s *Server) demoTools() []tool {
	return []tool{
		{name: "echo", description: "Gives the message back", hints: readOnly, answer: echo,
			input: `{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}`},
		{name: "add", description: "Adds two numbers; the sum is structured content", hints: readOnly, answer: add,
			input:  `{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}`,
			output: `{"type":"object","properties":{"sum":{"type":"number"}},"required":["sum"]}`},
		{name: "progress", description: "Takes steps and reports each as it is done", hints: readOnly, run: progress,
			input: `{"type":"object","properties":{"steps":{"type":"integer","minimum":0,"maximum":10000,"default":4},` +
				`"delayMs":{"type":"integer","minimum":0,"maximum":60000,"default":20}}}`},
		{name: "log", description: "Logs count messages of level info", hints: readOnly, run: logs,
			input: `{"type":"object","properties":{"count":{"type":"integer","minimum":0,"maximum":10000,"default":3}}}`},
		{name: "slow", description: "Waits; can be cancelled", hints: readOnly, run: slow,
			input: `{"type":"object","properties":{"ms":{"type":"integer","minimum":0,"maximum":600000}},"required":["ms"]}`},
		{name: "stats", description: "How many calls there were, and how many were cancelled", hints: readOnly, answer: s.stats,
			output: `{"type":"object","properties":{"cancelled":{"type":"integer"},"calls":{"type":"integer"}},"required":["cancelled","calls"]}`},
		{name: "touch", description: "Counts demo://counter up and tells its new value", answer: func(*calls.Query) calls.Outcome {
			return calls.Says(strconv.FormatInt(s.updates(&s.touched, counterURI), 10))
		}},
		{name: "whoami", description: "The era and the protocol revision of the client that asks", hints: readOnly, answer: whoami},
		{name: "fail", description: "Always fails", answer: func(*calls.Query) calls.Outcome { return calls.Fails("deliberate failure") }},
		{name: "media", description: "One block of every kind of content", hints: readOnly, answer: s.media},
		{name: "route", description: "Its arguments are mirrored into Mcp-Param headers by modern HTTP clients", hints: readOnly, answer: route,
			mirrors: []mirror{{"region", "Region", false}, {"shard", "Shard", true}, {"urgent", "Urgent", false}},
			input: `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},` +
				`"shard":{"type":"integer","x-mcp-header":"Shard"},"urgent":{"type":"boolean","x-mcp-header":"Urgent"}},"required":["region"]}`},
	}
}

func echo(q *calls.Query) calls.Outcome {
	return calls.Says("Echo: " + q.Args.Text("message"))
}

func add(q *calls.Query) calls.Outcome {
	sum := q.Args.Number("a") + q.Args.Number("b")
	if math.IsInf(sum, 0) {
		q.Args.Complain("the sum is out of range")
	}
	format := byte('f')
	if abs := math.Abs(sum); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return calls.Structured(`{"sum":` + strconv.FormatFloat(sum, format, -1, 64) + `}`)
}

func (s *Server) stats(q *calls.Query) calls.Outcome {
	return calls.Structured(`{"cancelled":` + strconv.FormatInt(s.runner.Stopped(), 10) +
		`,"calls":` + strconv.FormatInt(s.called.Load(), 10) + `}`)
}

func whoami(q *calls.Query) calls.Outcome {
	version := q.Client.Version
	if version == "" {
		version = string(q.Msg.Text(q.Msg.Version))
	}
	return calls.Says(content.Object("era", content.Quote(q.Client.Era.String()), "version", content.Quote(version)))
}

// media returns a block of every kind that the client's revision has, and describes the others.
func (s *Server) media(q *calls.Query) calls.Outcome {
	audio, link := s.audio(q), content.Link("demo://static/text", "static text", "text/plain")
	if !q.Has(rules.ResourceLinks) {
		link = content.Text("static text (demo://static/text)")
	}
	return calls.Shows(content.Text("media"), content.Image(s.png), audio, link, content.Embedded("demo://static/text", "text/plain", "static text"))
}

func route(q *calls.Query) calls.Outcome {
	text := "region=" + q.Args.Text("region")
	if shard, ok := q.Args.Whole("shard"); ok {
		text += " shard=" + strconv.FormatInt(shard, 10)
	}
	if urgent, ok := q.Args.Truth("urgent"); ok {
		text += " urgent=" + strconv.FormatBool(urgent)
	}
	return calls.Says(text)
}

func progress(c *calls.Call) calls.Outcome {
	steps, delay := c.Args.Count("steps", 4, 10_000), c.Args.Count("delayMs", 20, 60_000)
	if c.Args.Wrong != "" {
		return calls.Outcome{}
	}
	for i := 1; i <= steps; i++ {
		if !c.Pause(delay) || !c.Progress(i, steps, "step "+strconv.Itoa(i)+"/"+strconv.Itoa(steps)) {
			return calls.Outcome{}
		}
	}
	// There is a pause before the result too: some clients lose a progress notification that arrives together with its
	// result.
	if !c.Pause(delay) {
		return calls.Outcome{}
	}
	return calls.Says("done " + strconv.Itoa(steps))
}

func logs(c *calls.Call) calls.Outcome {
	count := c.Args.Count("count", 3, 10_000)
	if c.Args.Wrong != "" {
		return calls.Outcome{}
	}
	for i := 1; i <= count; i++ {
		if !c.Log("info", `{"n":`+strconv.Itoa(i)+`}`) {
			return calls.Outcome{}
		}
	}
	return calls.Says("logged " + strconv.Itoa(count))
}

func slow(c *calls.Call) calls.Outcome {
	ms := c.Args.Count("ms", arguments.Required, 600_000)
	if c.Args.Wrong != "" {
		return calls.Outcome{}
	}
	if !c.Pause(ms) {
		return calls.Outcome{}
	}
	return calls.Says("slept " + strconv.Itoa(ms))
}
