package legacy

import (
	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// loggingChecks is about log messages and their level.
func loggingChecks() []*suite.Check {
	const page = "server/utilities/logging"
	return []*suite.Check{
		{
			ID: "legacy-logging.set-level", Title: "Takes every log level", Level: suite.Must, Faces: faces, Needs: []suite.Need{suite.NeedsLogging}, Page: page + " §Setting Log Level",
			Statement: "logging/setLevel with any of the eight levels is answered with an empty result.",
			Why:       "Clients cannot turn logs up or down.",
			Fix:       "Know debug, info, notice, warning, error, critical, alert and emergency, and answer \"result\":{}.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				for _, level := range []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"} {
					mustResult(t, c, "logging/setLevel", setLevel(level), "a result for "+level)
				}
			},
		},
		{
			ID: "legacy-logging.bad-level", Title: "Refuses a log level that does not exist with -32602", Level: suite.Should, Faces: faces, Needs: []suite.Need{suite.NeedsLogging},
			Page:      page + " §Error Handling",
			Statement: "An invalid log level is the error -32602.",
			Why:       "The client believes that the level is set, and gets all logs or none.",
			Fix:       "Compare the level with the eight of the specification.",
			Run: func(t *suite.Trial) {
				checkutil.FailedWith(t, mustRequest(t, t.Open(nil), "logging/setLevel", setLevel("loud")), "the error -32602", -32602)
			},
		},
		{
			ID: "legacy-logging.level-kept", Title: "Logs from the level on that was set", Level: suite.Should, Faces: faces, Page: page + " §Setting Log Level; schema SetLevelRequest",
			Statement: "After logging/setLevel the client gets messages of that level and of higher ones, and no others.",
			Why:       "Clients drown in messages that they have turned off, or miss those that they need.",
			Fix:       "Keep the level by session, and compare each message with it before it is sent.",
			Needs:     []suite.Need{suite.NeedsLogging, suite.NeedsTool(checkutil.ToolLogging)},
			Run: func(t *suite.Trial) {
				if _, logs := logged(t, "error"); len(logs) > 0 {
					t.Fail("no message of level info after error was set", "%s", logs[0].Raw)
				}
				c, logs := logged(t, "debug")
				if len(logs) > 0 {
					return
				}
				// On another stream it may come later than the answer.
				if _, err := c.WaitOther(isInfo); err != nil {
					t.Fail("messages of level info after debug was set", "none")
				}
			},
		},
		{
			ID: "legacy-logging.declared", Title: "Logs only if it has declared that", Level: suite.Must, Faces: faces, Page: page + " §Capabilities",
			Statement: "Servers that send log messages declare the capability logging.",
			Why:       "The client cannot turn off what it gets.",
			Fix:       "Declare logging and serve logging/setLevel, or write to stderr.",
			Needs:     []suite.Need{suite.NeedsTool(checkutil.ToolLogging)},
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				if declares(c, "logging") {
					return
				}
				call := mustStart(t, c, "tools/call", toolCall(checkutil.ToolLogging, peer.Object{}, ""))
				_ = mustEnd(t, call)
				waitSettled(t, c)
				for _, m := range checkutil.OfMethod(all(c, call), logMethod) {
					t.Fail("the capability logging, or no "+logMethod, "%s", m.Raw)
				}
			},
		},
	}
}

const logMethod = "notifications/message"

func setLevel(level string) string { return `{"level":"` + level + `"}` }

func isInfo(m peer.Message) bool {
	return m.Method == logMethod && peer.Text(m.Params(), "level") == "info"
}

// logged calls the fixture's tool at a log level and returns its messages of level info, with the connection.
func logged(t *suite.Trial, level string) (c *peer.Conn, out []peer.Message) {
	c = t.Open(nil)
	mustResult(t, c, "logging/setLevel", setLevel(level), "a result")
	call := mustStart(t, c, "tools/call", toolCall(checkutil.ToolLogging, peer.Object{}, ""))
	_ = mustEnd(t, call)
	waitSettled(t, c)
	for _, m := range all(c, call) {
		if isInfo(m) {
			out = append(out, m)
		}
	}
	return c, out
}
