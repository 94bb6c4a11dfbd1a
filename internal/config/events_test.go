package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"dragoman/internal/config/value"
	"dragoman/internal/testkit"
)

// Sinks are read with their headers and secrets, have defaults, and are printed without what is secret.
func TestEventSinks(t *testing.T) {
	file := testkit.WriteFile(t, "config.toml", `
[events]
types = ["dev.dragoman.*"]
content = "keys"
[events.sinks.hook]
url = "https://example.com/events"
secret = "env:SIGN"
mode = "batched"
timeout = "2s"
[events.sinks.hook.headers]
Authorization = "env:TOKEN"
[events.sinks.bus]
type = "nats"
url = "tls://a.example.com:4222,tls://b.example.com:4222"
authorization = "user:pass-word"
`)
	c, err := load(t, file, []string{"SIGN=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "TOKEN=Bearer hidden-token"})
	if err != nil {
		t.Fatal(err)
	}
	want := []*EventSink{{Name: "hook", Type: "webhook", URL: "https://example.com/events", Mode: "batched", Types: []string{"*"}, Secret: value.NewSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
		Headers: []value.NamedSecret{{Name: "Authorization", Value: value.NewSecret("Bearer hidden-token")}}, Subject: "dragoman.events.{type}", Timeout: 2 * time.Second, MaxAttempts: 10,
		RetryBackoff: 100 * time.Millisecond, RetryTime: 5 * time.Minute, Concurrency: 16, Batch: 100},
		{Name: "bus", Type: "nats", URL: "tls://a.example.com:4222,tls://b.example.com:4222", Mode: "structured", Types: []string{"*"}, Authorization: value.NewSecret("user:pass-word"),
			Subject: "dragoman.events.{type}", Timeout: 10 * time.Second, MaxAttempts: 10, RetryBackoff: 100 * time.Millisecond, RetryTime: 5 * time.Minute, Concurrency: 16, Batch: 100}}
	if !reflect.DeepEqual(c.Events.Sinks, want) {
		t.Errorf("%+v\n%+v", c.Events.Sinks[0], c.Events.Sinks[1])
	}
	if c.EventSource() != "urn:dragoman:dragoman" {
		t.Error(c.EventSource())
	}
	var text, data strings.Builder
	if err := c.PrintTOML(&text); err != nil {
		t.Fatal(err)
	}
	if err := c.PrintJSON(&data); err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{text.String(), data.String()} {
		if strings.Contains(shown, "hidden-token") || strings.Contains(shown, "MfKQ") || strings.Contains(shown, "pass-word") {
			t.Errorf("a secret is printed:\n%s", shown)
		}
	}
	for _, line := range []string{`events.sinks.hook.url = "https://example.com/events"`, "# events.sinks.hook.secret ", "# events.sinks.hook.headers.Authorization ", `events.sinks.hook.timeout = "2s"`} {
		if !strings.Contains(text.String(), line) {
			t.Errorf("%s is not printed:\n%s", line, text.String())
		}
	}
}

// What cannot work is refused with what fixes it.
func TestBadEventSinks(t *testing.T) {
	for name, x := range map[string]struct{ text, want string }{
		"no URL":            {"[events.sinks.a]\ntype = \"webhook\"\n", "events.sinks.a.url: is missing"},
		"the other's URL":   {"[events.sinks.a]\nurl = \"nats://127.0.0.1\"\n", "is not that of a sink of type webhook"},
		"another URL":       {"[events.sinks.a]\nurl = \"ftp://x\"\n", "is no address of a receiver of events"},
		"a password":        {"[events.sinks.a]\nurl = \"https://u:p@x\"\n", "or has credentials"},
		"two webhooks":      {"[events.sinks.a]\nurl = \"https://x,https://y\"\n", "which only NATS has"},
		"batched NATS":      {"[events.sinks.a]\ntype = \"nats\"\nurl = \"nats://127.0.0.1\"\nmode = \"batched\"\n", "which NATS has not"},
		"a short secret":    {"[events.sinks.a]\nurl = \"https://x\"\nsecret = \"short-one\"\n", "has less than 24 bytes"},
		"in the clear":      {"[events.sinks.a]\nurl = \"http://example.com\"\nheaders = { X = \"y\" }\n", "would be sent in the clear to example.com"},
		"a token, in clear": {"[events.sinks.a]\ntype = \"nats\"\nurl = \"tls://x,nats://example.com\"\nauthorization = \"t\"\n", "would be sent in the clear to example.com"},
		"a NATS key":        {"[events.sinks.a]\nurl = \"https://x\"\nauthorization = \"t\"\n", "is for NATS"},
		"a webhook's key":   {"[events.sinks.a]\ntype = \"nats\"\nurl = \"nats://127.0.0.1\"\nheaders = { X = \"y\" }\n", "is for a webhook"},
		"no file":           {"[events.sinks.a]\ntype = \"nats\"\nurl = \"nats://127.0.0.1\"\ncredentials = \"/none\"\n", "cannot be read"},
		"a bad subject":     {"[events.sinks.a]\ntype = \"nats\"\nurl = \"nats://127.0.0.1\"\nsubject = \"a.>\"\n", "is not a subject"},
		"a bad name":        {"[events.sinks.A]\nurl = \"https://x\"\n", "is not a name for a sink"},
		"a bad header":      {"[events.sinks.a]\nurl = \"https://x\"\nheaders = { Host = \"y\" }\n", "cannot be set"},
		"an unknown key":    {"[events.sinks.a]\nurl = \"https://x\"\nretries = 5\n", "unknown key"},
		"a bad source":      {"[events]\nsource = \"here\"\n", "is no absolute URI"},
		"a bad file":        {"[events]\ndead_letter = \"/none/dead\"\n[events.sinks.a]\nurl = \"https://x\"\n", "events.dead_letter"},
	} {
		t.Run(name, func(t *testing.T) {
			file := testkit.WriteFile(t, "config.toml", x.text)
			_, err := load(t, file, nil)
			if err == nil || !strings.Contains(errorLines(err, file), x.want) || strings.Contains(err.Error(), "short-one") {
				t.Errorf("%v", err)
			}
		})
	}
}
