package faults

import "time"

// fault is a fault of the network.
type fault struct {
	name   string
	what   string   // description for the table
	tool   string   // that is called meanwhile
	load   int      // bytes of its arguments
	toxics []string // of Toxiproxy
	ending ending   // of connections, towards Dragoman
	begin  func(n *network)
	once   bool // it happens once instead of lasting until heal

	loose bool     // later calls may or may not use a connection that is about to end: the table has the first only
	dead  bool     // health checks fail as well, so that the upstream gets into error
	ok    bool     // calls may be answered
	codes []string // the other codes that they may be answered with
}

// aWhile is the time between a fault of idle connections and the next call. After less time the call may be written to a connection that
// has ended, and whether it is lost differs from run to run.
const aWhile = 500 * time.Millisecond

// The codes of calls whose connection is cut, and of calls without an answer.
var (
	cut    = []string{"upstream_lost", "upstream_unreachable"}
	silent = []string{"upstream_timeout"}
)

const (
	whole  = `{"type":"limit_data","stream":"downstream","attributes":{"bytes":0}}`
	inBody = `{"type":"limit_data","stream":"downstream","attributes":{"bytes":20000}}`
	inText = `{"type":"limit_data","stream":"downstream","attributes":{"bytes":2000}}`
)

func faults() []fault {
	return []fault{
		{name: "nothing", what: "the network is good", tool: "stream", ok: true},
		{name: "latency", what: "200 ms later, either way", tool: "stream", ok: true,
			toxics: []string{`{"type":"latency","stream":"downstream","attributes":{"latency":200}}`, `{"type":"latency","stream":"upstream","attributes":{"latency":200}}`}},
		{name: "jitter", what: "answers 0 to 300 ms later", tool: "stream", ok: true,
			toxics: []string{`{"type":"latency","stream":"downstream","attributes":{"latency":150,"jitter":150}}`}},
		{name: "slicer", what: "both ways in pieces of 1 to 20 bytes", tool: "stream", ok: true,
			toxics: []string{`{"type":"slicer","stream":"downstream","attributes":{"average_size":10,"size_variation":9,"delay":20}}`,
				`{"type":"slicer","stream":"upstream","attributes":{"average_size":10,"size_variation":9,"delay":20}}`}},
		{name: "bandwidth", what: "an answer of 200 kB at 400 kB/s", tool: "big", ok: true,
			toxics: []string{`{"type":"bandwidth","stream":"downstream","attributes":{"rate":400}}`}},
		{name: "slow answer", what: "an answer of 200 kB at 10 kB/s", tool: "big", codes: silent, loose: true,
			toxics: []string{`{"type":"bandwidth","stream":"downstream","attributes":{"rate":10}}`}},
		{name: "slow request", what: "arguments of 2 MB at 10 kB/s", tool: "echo", load: 2_000_000, codes: silent, loose: true,
			toxics: []string{`{"type":"bandwidth","stream":"upstream","attributes":{"rate":10}}`}},
		{name: "answers vanish", what: "nothing comes back, connections stay open", tool: "echo", codes: silent, dead: true,
			toxics: []string{`{"type":"timeout","stream":"downstream","attributes":{"timeout":0}}`}},
		{name: "requests vanish", what: "nothing arrives, connections stay open", tool: "echo", codes: silent, dead: true,
			toxics: []string{`{"type":"timeout","stream":"upstream","attributes":{"timeout":0}}`}},
		{name: "refused", what: "connections are reset, new ones refused", tool: "echo", codes: cut,
			begin: func(n *network) { n.refused = true; n.front.refuse(); time.Sleep(aWhile) }}, // the connections have been idle that long
		{name: "idle reset", what: "what is open is reset, once, a while before the call", tool: "echo", ok: true, codes: cut, once: true,
			begin: func(n *network) { n.front.cut(); time.Sleep(aWhile) }}, // the connections have been idle that long
		{name: "reset before", what: "reset instead of the answer", tool: "echo", codes: cut, toxics: []string{whole}, ending: resets},
		{name: "closed before", what: "closed instead of the answer", tool: "echo", codes: cut, toxics: []string{whole}},
		{name: "half-closed before", what: "half-closed instead of the answer", tool: "echo", codes: cut, toxics: []string{whole}, ending: halves},
		{name: "request reset", what: "reset when the request is sent; it does not arrive", tool: "echo", codes: cut, ending: resets,
			toxics: []string{`{"type":"reset_peer","stream":"upstream","attributes":{"timeout":0}}`}},
		{name: "body reset", what: "reset after 20 kB of 200 kB", tool: "big", codes: cut, toxics: []string{inBody}, ending: resets},
		{name: "body closed", what: "closed after 20 kB of 200 kB", tool: "big", codes: cut, toxics: []string{inBody}},
		{name: "body half-closed", what: "half-closed after 20 kB of 200 kB", tool: "big", codes: cut, toxics: []string{inBody}, ending: halves},
		{name: "events reset", what: "reset in the midst of an event", tool: "stream", codes: cut, toxics: []string{inText}, ending: resets},
		{name: "events closed", what: "closed in the midst of an event", tool: "stream", codes: cut, toxics: []string{inText}},
		{name: "requests half-closed", what: "the server sees an end after the request, and may answer", tool: "stream", ok: true, codes: cut, loose: true,
			begin: func(n *network) { n.behind.set(ends, true) }},
	}
}

// envelopeCode returns the code of the REST envelope for a row of Dragoman's table.
func envelopeCode(name string) string {
	if name == "upstream_timeout" {
		return "TIMEOUT (504)"
	}
	return "SERVICE_UNAVAILABLE (503)"
}
