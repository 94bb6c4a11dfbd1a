package mock

import (
	"strconv"
	"strings"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

func stdioChecks() []check {
	const page = "basic/transports/stdio"
	return []check{
		{Check: suite.Check{ID: "client.lines", Title: "Writes a message a line, and nothing else", Level: suite.Must, Faces: anyStdio, Page: page,
			Statement: "What goes to the server's input is JSON-RPC messages in UTF-8, each on a line of its own that ends with a newline and has none within; arrays in 2025-03-26 alone.",
			Why:       "The server reads line by line: what is more or less than a message is lost, or ends the conversation.",
			Fix:       "Write each message with a JSON encoder that does not indent, then \\n; write nothing else to the input, not even an empty line."},
			judge: lines},
		{Check: suite.Check{ID: "client.stderr", Title: "Does not take the error output for messages", Level: suite.Should, Faces: anyStdio, Page: page,
			Statement: "A server may write to its error output what it likes; the client may look at it or not, and does not take it for a failure.",
			Why:       "A client that breaks off fails at every server that logs; one that neither reads the pipe nor leaves it out stops the server when the pipe is full.",
			Fix:       "Read the error output all the time, or hand your own down; judge by messages and by how the process ends."},
			scenarios: []string{"chatter"},
			judge: func(v *verdict) {
				switch said := v.requests(""); {
				case !v.history.calls[v.face]:
					v.skipped = "the client has called no tool so far"
				case len(said) == 0:
					v.fail("a call of the tool that is listed", "nothing came from the client")
				case len(v.requests("tools/call")) == 0:
					v.fail("a call of the tool that is listed", "no tools/call; the last was %s", what(said[len(said)-1]))
				}
			}},
		{Check: suite.Check{ID: "client.closes-input", Title: "Ends a server by closing its input", Level: suite.Should, Faces: anyStdio, Page: page + " §Shutdown",
			Statement: "The client closes the input of the server's process first, and waits for it to end.",
			Why:       "A killed process loses its pending output, and leaves its own children behind.",
			Fix:       "Close the pipe to the server's input when you are done, and send no signal before the process had time to end."},
			scenarios: []string{"tools_call", "lingers"},
			judge: func(v *verdict) {
				v.ended(func(p *process) {
					switch {
					case p.early:
						v.fail("the end of the input first", "process %d was killed", p.n)
					case p.signalledEarly():
						v.fail("the end of the input first, and time to end", "process %d got %s before, or less than %d ms after", p.n, strings.TrimPrefix(p.signals[0], "early "), least.Milliseconds())
					}
				})
			}},
		{Check: suite.Check{ID: "client.ends-server", Title: "Makes a server end that does not end by itself", Level: suite.Should, Faces: anyStdio, Page: page + " §Shutdown",
			Statement: "A process that goes on after its input was closed is made to end after a while: by SIGTERM, and then by SIGKILL.",
			Why:       "Each run of the client leaves a process behind, with all that it holds.",
			Fix:       "Wait some seconds after closing the input, then send SIGTERM, wait again, then SIGKILL; end yourself only then."},
			scenarios: []string{"lingers"}, judge: endsServer},
		{Check: suite.Check{ID: "client.restarts", Title: "Starts a server again that has ended", Level: suite.Should, Faces: []peer.Face{peer.ModernStdio}, Page: page + " §Unexpected Termination",
			Statement: "If the process ends unexpectedly, the client starts it again; requests may then be sent anew, as nothing hangs on the process.",
			Why:       "After each crash the user has to restart the client.",
			Fix:       "Watch for the end of the process and of its output; start it again, and send anew what is not answered and may be repeated."},
			scenarios: []string{"crash"},
			judge: func(v *verdict) {
				crashed := ""
				v.each("tools/call", func(h *received) {
					if crashed == "" {
						crashed = h.session
					}
				})
				if v.skipped == "" && strconv.Itoa(len(v.processes)) == crashed {
					v.fail("another process", "none after process %s has ended", crashed)
				}
			}},
	}
}

// signalledEarly reports whether a process got a signal before it had time to exit by itself.
func (p *process) signalledEarly() bool {
	return len(p.signals) > 0 && (strings.HasPrefix(p.signals[0], "early ") || p.signalAt-p.closedAt < least)
}

func lines(v *verdict) {
	got := 0
	for _, h := range v.all {
		if h.verb != lineVerb {
			continue
		}
		got++
		switch {
		case h.cut && strings.ToValidUTF8(h.body, "") == h.body:
			v.fail("a newline at the end", "%s and the end of the input", cut(h.body))
		case h.cut:
			v.fail("UTF-8", "%q", cut(h.body))
		case strings.TrimSpace(h.body) == "":
			v.fail("a message", "an empty line")
		case v.batch(h.body) != nil:
		case h.message.Kind() == peer.Neither || peer.Text(h.message.Object, "jsonrpc") != "2.0":
			v.fail("a request, a notification or a response", "%s", cut(h.body))
		case v.face.Modern() && h.message.Kind() == peer.IsResponse:
			v.fail("no response, which 2026-07-28 has not", "%s", cut(h.body))
		}
	}
	if got == 0 {
		v.skipped = "the client has sent no message"
		if len(v.processes) == 0 {
			v.skipped = "the client has not started the server"
		}
	}
}

// ended calls f for each process that the client has to end, or skips the check if there is none.
func (v *verdict) ended(f func(p *process)) {
	switch {
	case len(v.processes) == 0:
		v.skipped = "the client has not started the server"
	case v.late:
		v.skipped = "the client has not ended in time"
	case v.otherEra() != "":
		v.skipped = v.otherEra()
	case v.scenario.crashes:
		v.skipped = "here the process ends by itself"
	default:
		for _, p := range v.processes {
			f(p)
		}
	}
}

func endsServer(v *verdict) {
	v.ended(func(p *process) {
		switch {
		case p.outlives:
			v.fail("that no process is left when the client has ended", "process %d goes on", p.n)
		case !p.closed:
			v.skipped = "the client has not closed the input"
		case len(p.signals) == 0:
			v.fail("SIGTERM before SIGKILL", "process %d was killed without", p.n)
		case p.signalledEarly(): // client.closes-input judges that
		case p.overAt-p.signalAt < least:
			v.fail("some time between SIGTERM and SIGKILL", "%d ms", (p.overAt - p.signalAt).Milliseconds())
		}
	})
}
