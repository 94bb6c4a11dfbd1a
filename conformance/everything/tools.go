package everything

import (
	"math"
	"slices"
	"strconv"

	"dragoman/proxy"
)

// tool is a tool. Exactly one of answer, run and script is set.
type tool struct {
	name, description string
	input             string // inputSchema, JSON; empty for no arguments
	output            string // outputSchema, JSON; empty for none
	hints             string // annotations, JSON; empty for none
	mirrors           []mirror
	answer            func(*query) outcome
	run               func(*call) outcome
	script            *script // questions to the client
}

const (
	noArguments = `{"type":"object","properties":{}}`
	readOnly    = `{"readOnlyHint":true}`
)

// addTools sets the tools and their list.
func (s *Server) addTools(pageSize int) {
	table := slices.Concat(suiteTools(), suiteScripts(), changeTools(), demoTools(), demoScripts())
	table = append(table, tool{name: sometimes, description: "There only sometimes", hints: readOnly,
		answer: func(*query) outcome { return says("Here I am.") }})
	s.tools = make(map[string]*tool, len(table))
	items := make([]string, 0, len(table))
	for i := range table {
		t := &table[i]
		if t.input == "" {
			t.input = noArguments
		}
		s.tools[t.name] = t
		items = append(items, object("name", quote(t.name), "description", quote(t.description),
			"inputSchema", t.input, "outputSchema", t.output, "annotations", t.hints))
	}
	s.setLists(tools, items, pageSize, shownTTL)
}

func says(text string) outcome { return shows(textBlock(text)) }

func shows(blocks ...string) outcome { return gives(contentOf(blocks...)) }

func fails(text string) outcome { return gives(contentOf(textBlock(text)) + `,"isError":true`) }

// gives returns a complete result with the given members.
func gives(members string) outcome {
	return outcome{kind: complete, members: members, structured: "", refusal: nil, stopped: false}
}

func refuses(e *proxy.Error) outcome {
	return outcome{kind: "", members: "", structured: "", refusal: e, stopped: false}
}

func isStopped() outcome {
	return outcome{kind: "", members: "", structured: "", refusal: nil, stopped: true}
}

// structured returns a JSON value as structuredContent, and as text for clients without it (SEP-2106).
func structured(json string) outcome {
	out := shows(textBlock(json))
	out.structured = json
	return out
}

// invalid returns the result for invalid arguments.
func invalid(a *arguments) outcome { return fails("invalid arguments: " + a.wrong) }

// demoTools returns the tools for people and scripted clients.
func demoTools() []tool {
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
		{name: "stats", description: "How many calls there were, and how many were cancelled", hints: readOnly, answer: stats,
			output: `{"type":"object","properties":{"cancelled":{"type":"integer"},"calls":{"type":"integer"}},"required":["cancelled","calls"]}`},
		{name: "touch", description: "Counts demo://counter up and tells its new value", answer: func(q *query) outcome {
			return says(strconv.FormatInt(q.server.updates(&q.server.touched, counterURI), 10))
		}},
		{name: "whoami", description: "The era and the protocol revision of the client that asks", hints: readOnly, answer: whoami},
		{name: "fail", description: "Always fails", answer: func(*query) outcome { return fails("deliberate failure") }},
		{name: "media", description: "One block of every kind of content", hints: readOnly, answer: media},
		{name: "route", description: "Its arguments are mirrored into Mcp-Param headers by modern HTTP clients", hints: readOnly, answer: route,
			mirrors: []mirror{{"region", "Region", false}, {"shard", "Shard", true}, {"urgent", "Urgent", false}},
			input: `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},` +
				`"shard":{"type":"integer","x-mcp-header":"Shard"},"urgent":{"type":"boolean","x-mcp-header":"Urgent"}},"required":["region"]}`},
	}
}

func echo(q *query) outcome {
	message := q.args.text("message")
	if q.args.wrong != "" {
		return invalid(&q.args)
	}
	return says("Echo: " + message)
}

func add(q *query) outcome {
	sum := q.args.number("a") + q.args.number("b")
	if q.args.wrong == "" && math.IsInf(sum, 0) {
		q.args.complain("the sum is out of range")
	}
	if q.args.wrong != "" {
		return invalid(&q.args)
	}
	format := byte('f')
	if abs := math.Abs(sum); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return structured(`{"sum":` + strconv.FormatFloat(sum, format, -1, 64) + `}`)
}

func stats(q *query) outcome {
	return structured(`{"cancelled":` + strconv.FormatInt(q.server.cancelled.Load(), 10) +
		`,"calls":` + strconv.FormatInt(q.server.calls.Load(), 10) + `}`)
}

func whoami(q *query) outcome {
	version := q.client.Version
	if version == "" {
		version = string(q.msg.Text(q.msg.Version))
	}
	return says(object("era", quote(q.client.Era.String()), "version", quote(version)))
}

// media returns a block of every kind that the client's revision has, and describes the others.
func media(q *query) outcome {
	audio, link := q.audio(), linkBlock("demo://static/text", "static text", "text/plain")
	if !q.since(hasStructured) {
		link = textBlock("static text (demo://static/text)")
	}
	return shows(textBlock("media"), imageBlock(q.server.png), audio, link, embeddedBlock("demo://static/text", "text/plain", "static text"))
}

func route(q *query) outcome {
	text := "region=" + q.args.text("region")
	if shard, ok := q.args.whole("shard"); ok {
		text += " shard=" + strconv.FormatInt(shard, 10)
	}
	if urgent, ok := q.args.truth("urgent"); ok {
		text += " urgent=" + strconv.FormatBool(urgent)
	}
	if q.args.wrong != "" {
		return invalid(&q.args)
	}
	return says(text)
}

func progress(c *call) outcome {
	steps, delay := c.args.count("steps", 4, 10_000), c.args.count("delayMs", 20, 60_000)
	if c.args.wrong != "" {
		return invalid(&c.args)
	}
	for i := 1; i <= steps; i++ {
		if !c.pause(delay) || !c.progress(i, steps, "step "+strconv.Itoa(i)+"/"+strconv.Itoa(steps)) {
			return isStopped()
		}
	}
	// There is a pause before the result too: some clients lose a progress notification that arrives together with its
	// result.
	if !c.pause(delay) {
		return isStopped()
	}
	return says("done " + strconv.Itoa(steps))
}

func logs(c *call) outcome {
	count := c.args.count("count", 3, 10_000)
	if c.args.wrong != "" {
		return invalid(&c.args)
	}
	for i := 1; i <= count; i++ {
		if !c.log("info", `{"n":`+strconv.Itoa(i)+`}`) {
			return isStopped()
		}
	}
	return says("logged " + strconv.Itoa(count))
}

func slow(c *call) outcome {
	ms := c.args.count("ms", required, 600_000)
	if c.args.wrong != "" {
		return invalid(&c.args)
	}
	if !c.pause(ms) {
		return isStopped()
	}
	return says("slept " + strconv.Itoa(ms))
}
