package legacy

import (
	"strings"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// stdioChecks covers the pipes of a process of a legacy revision.
func stdioChecks() []*suite.Check {
	return []*suite.Check{
		{
			ID: "legacy-stdio.only-messages", Title: "Writes nothing but messages to stdout", Level: suite.Must, Faces: stdioFace, Page: "basic/transports §stdio",
			Statement: "Each line on stdout is a JSON-RPC message; nothing else is written there.",
			Why:       "Clients end the connection at the first line that is none, or lose the message behind it.",
			Fix:       "Send logs, banners and prints of libraries to stderr; write each message as one line.",
			Run:       onlyMessages,
		},
		{
			ID: "legacy-stdio.eof", Title: "Ends when its input ends", Level: suite.Should, Faces: stdioFace, Page: "basic/lifecycle §Shutdown",
			Statement: "The client ends a session by closing the server's input, waits for it to exit, and only then sends signals.",
			Why:       "Each session leaves a process behind, or takes seconds to end.",
			Fix:       "Exit when reading stdin says end of file, also while calls are running and timers are set.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				pings(t, c)
				if how, forced := c.Close(); forced {
					t.Fail("the end of the process after that of its input", "it had to be forced: %s", how)
				}
			},
		},
		{
			ID: "legacy-stdio.bad-line", Title: "Goes on after a line that is no message", Level: suite.May, Faces: stdioFace, Page: "basic §Messages (JSON-RPC 2.0 §5.1)",
			Statement: "A client writes no such line; a server that answers it with -32700, or skips it, and goes on is the sturdier one.",
			Why:       "One byte too many on the pipe ends the session with everything in it.",
			Fix:       "Skip lines that cannot be read, answer -32700 if you like, and read on.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				if _, err := c.Say(`this is no JSON`); err != nil {
					t.Break("%v", err)
				}
				mustResult(t, c, "ping", "", "an answer to the next request")
			},
		},
		{
			ID: "legacy-stdio.long-line", Title: "Reads a line of a megabyte", Level: suite.Should, Faces: stdioFace, Page: "basic/transports §stdio",
			Statement: "Messages are delimited by newlines; the specification knows no longest line.",
			Why:       "Files and pictures in arguments make long lines: the server hangs, or reads half a message.",
			Fix:       "Read lines with a buffer that grows, to a limit of many megabytes.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				mustResult(t, c, "ping", `{"_meta":{"dragoman/padding":"`+strings.Repeat("x", 1<<20)+`"}}`, "an answer")
			},
		},
	}
}

func onlyMessages(t *suite.Trial) {
	c := t.Open(nil)
	for _, method := range []string{"ping", "tools/list", "dragoman/no-such-method"} {
		_, _ = c.Request(method, "")
	}
	if t.Offer.Tool("test_simple_text") != nil {
		_, _ = c.Request("tools/call", toolCall("test_simple_text", nil, ""))
	}
	waitSettled(t, c)
	for _, m := range checkutil.OfKind(c.Others(), peer.Neither) {
		// Only 2025-03-26 has arrays.
		if t.Revision != peer.R2503 || len(flat(m.Raw)) == 0 {
			t.Fail("lines that are messages", "%q", m.Raw)
		}
	}
}
