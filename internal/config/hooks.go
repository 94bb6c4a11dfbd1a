package config

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"dragoman/adapters/events/webhook"
	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
	"dragoman/policies"
	"dragoman/proxy"
)

// PolicyHookConfig is a decision point of the operator's that is asked about requests to servers.
type PolicyHookConfig struct {
	// URL is https, http on the loopback, or unix:/path/to/socket[:/path/of/the/resource]; "" (default): nobody is asked.
	URL string
	// Methods are those of the requests that are asked about, of hookMethods.
	Methods []string
	// Arguments is none (default), keys, redacted or full, for arguments and results alike.
	Arguments string
	// Results says that results are asked about, too; default false.
	Results bool
	// Timeout bounds a question. 10 ms to 30 s, default 1 s.
	Timeout time.Duration
	// OnError is "deny" (default) or "allow": what becomes of a request that cannot be asked about.
	OnError string
	// Cache is how many answers are kept, for as long as each says itself. Up to 1 000 000, default 1 000; 0 is none.
	Cache int
	// Headers are sent with every question.
	Headers []value.NamedSecret
	// CAFile is a PEM file of roots to trust instead of the system's; "": the system's.
	CAFile string
}

// argumentChoices are the values of keys that say how much of arguments is shown.
var argumentChoices = []string{policies.ArgumentsNone, policies.ArgumentsKeys, policies.ArgumentsRedacted, policies.ArgumentsFull}

// HookAllows is the value of policy_hook.on_error by which what cannot be asked about is permitted.
const HookAllows = "allow"

// hookMethods are the methods whose requests use something of a server.
var hookMethods = []string{"tools/call", "prompts/get", "resources/read", "resources/subscribe", "completion/complete", "tasks/get", "tasks/result", "tasks/update", "tasks/cancel"}

func checkHookMethod(entry string) error {
	if !slices.Contains(hookMethods, entry) {
		return value.Problemf("%q is none of %s", value.Shorten(entry), value.OneOf(hookMethods))
	}
	return nil
}

// EventsConfig says what Dragoman tells others of what happens. Without sinks it tells nobody.
type EventsConfig struct {
	// Source is the URI of this Dragoman in events; "" (default): urn:dragoman:NAME with the name of the service. See [Config.EventSource].
	Source string
	// Types are those of the events that are sent; a trailing * matches any ending. Default all.
	Types []string
	// Content is how much of arguments and results events have: none (default), keys, redacted or full.
	Content string
	// DeadLetter is a file for events that cannot be delivered; "" (default): they are counted only.
	DeadLetter string
	// DeadLetterBytes bounds it and the file before it together. 1 MiB to 1 GiB, default 64 MiB.
	DeadLetterBytes int
	// Queue bounds the events that wait for each sink. 1 MiB to 1 GiB, default 16 MiB.
	Queue int
	// Sinks get the events, in the order in which they were named.
	Sinks []*EventSink
}

// EventSink is a receiver of events.
type EventSink struct {
	Name string
	// Type is [Webhook] (default) or [NATS].
	Type string
	// URL is http, https or unix:/path/to/socket[:/path] of a webhook; nats or tls of NATS, several with commas between.
	URL string
	// Mode is structured (default), binary or, for a webhook, batched.
	Mode string
	// Types are those of events.types that it gets; a trailing * matches any ending. Default all.
	Types []string
	// Secret signs what a webhook gets; empty (default): nothing is signed.
	Secret value.Secret
	// Headers are sent to a webhook with every request.
	Headers []value.NamedSecret
	// Authorization is a token for NATS, or USER:PASSWORD; empty (default): none.
	Authorization value.Secret
	// Credentials is a file with a JWT for NATS and its key; "" (default): none.
	Credentials string
	// Subject is that of messages to NATS; {type} stands for the type of the event.
	Subject string
	// CAFile is a PEM file of roots to trust instead of the system's; "": the system's.
	CAFile string
	// Timeout bounds an attempt to deliver. 100 ms to 1 min, default 10 s.
	Timeout time.Duration
	// MaxAttempts is how often an event is tried. 1 to 1 000, default 10.
	MaxAttempts int
	// RetryBackoff is the pause before the second attempt, which doubles up to 30 s. 1 ms to 30 s, default 100 ms.
	RetryBackoff time.Duration
	// RetryTime is how old an event may be for another attempt. 1 s to 24 h, default 5 min.
	RetryTime time.Duration
	// Concurrency is how many attempts run at a time. 1 to 256, default 16.
	Concurrency int
	// Batch is how many events a batch has at most. 1 to 1 000, default 100.
	Batch int
}

// Values of [EventSink.Type] and [EventSink.Mode].
const (
	Webhook = "webhook"
	NATS    = "nats"

	structured = "structured"
	BinaryMode = "binary"
	Batched    = "batched"
)

const (
	eventsTable = "events."
	sinksKey    = eventsTable + "sinks"
	deadKey     = eventsTable + "dead_letter"
	secretPart  = "secret"
	typesPart   = "types"
)

// EventSource returns the URI of this Dragoman in events.
func (c *Config) EventSource() string { return cmp.Or(c.Events.Source, "urn:dragoman:"+c.Service.Name) }

// natsSubject is a subject of letters, digits and placeholders.
var natsSubject = regexp.MustCompile(`^([A-Za-z0-9_-]|\{type\})+(\.([A-Za-z0-9_-]|\{type\})+)*$`)

func (c *Config) eventKeys() []setting {
	e := &c.Events
	return []setting{
		{key: eventsTable + "source", std: "", doc: "URI of this Dragoman in events; empty: urn:dragoman: and service.name", field: field.Text{At: &e.Source, Empty: true, Most: 512, What: "an absolute URI", Check: checkURI}},
		{key: eventsTable + typesPart, std: "*", doc: "types of the events that are sent", field: eventTypes(&e.Types)},
		{key: eventsTable + "content", std: policies.ArgumentsNone, doc: "what events have of arguments and results of calls: nothing, the outermost names, all but secrets (audit.redact), or all",
			field: field.Enum{At: &e.Content, Values: argumentChoices}},
		{key: deadKey, std: "", doc: "file for events that cannot be delivered; empty: they are counted only", field: field.Text{At: &e.DeadLetter, What: "a file", Empty: true}},
		{key: eventsTable + "dead_letter_bytes", std: "64MiB", doc: "most bytes of that file and the one before it, FILE.1; the older one gives way", field: field.Size{At: &e.DeadLetterBytes, Least: field.Mib, Most: field.Gib}},
		{key: eventsTable + "queue", std: "16MiB", doc: "most bytes of events that wait for each sink", field: field.Size{At: &e.Queue, Least: field.Mib, Most: field.Gib}},
		{key: sinksKey, doc: "receivers of events by name: type, url and more",
			open: entries[EventSink]{&e.Sinks, func(s *EventSink) string { return s.Name }, newSink}.table(sinkParts)},
	}
}

func eventTypes(at *[]string) field.Field {
	return field.List{At: at, Check: func(item string) error { return checkPattern(item, "a type of event") }, What: `a list such as ["dev.dragoman.tool.called", "dev.dragoman.server.*"]`, Least: 1, Most: maxList, Commas: true}
}

// newSink makes a sink with the defaults.
func newSink(name string) (*EventSink, error) {
	if !UpstreamName.MatchString(name) || len(name) > maxName {
		return nil, &value.Problem{What: fmt.Sprintf("%q is not a name for a sink", value.Shorten(name)), Fix: "use at most 64 lower-case letters, digits, hyphens and underscores, a letter first"}
	}
	return &EventSink{Name: name, Type: Webhook, Mode: structured, Types: []string{"*"}, Subject: "dragoman.events.{type}", Timeout: 10 * time.Second, MaxAttempts: 10,
		RetryBackoff: 100 * time.Millisecond, RetryTime: 5 * time.Minute, Concurrency: 16, Batch: 100}, nil
}

// sinkParts returns the keys of a sink.
func sinkParts(s *EventSink) []setting {
	return []setting{
		{key: "type", doc: "what it is", field: field.Enum{At: &s.Type, Values: []string{Webhook, NATS}}},
		{key: UrlKey, doc: "address", field: field.Sink(&s.URL)},
		{key: "mode", doc: "whether the body is an event, only its data, or an array of events, which only a webhook gets", field: field.Enum{At: &s.Mode, Values: []string{structured, BinaryMode, Batched}}},
		{key: typesPart, doc: "types of events.types that it gets", field: eventTypes(&s.Types)},
		{key: secretPart, doc: "key that signs what a webhook gets, in Base64 behind whsec_ or as it is; empty: nothing is signed", secret: true,
			field: field.Key{At: &s.Secret, Check: checkSigning, What: `at least 24 bytes, "env:NAME" or "file:/path", or empty`}},
		{key: headersKey, doc: "header of every request to a webhook; VALUE may be env:NAME or file:/path", secret: true, open: secrets(&s.Headers, true, headerField)},
		{key: "authorization", doc: "token for NATS, or USER:PASSWORD", secret: true, field: field.Key{At: &s.Authorization, Check: checkHeaderValue, What: `the token, USER:PASSWORD, "env:NAME" or "file:/path"`}},
		{key: "credentials", doc: "file with a JWT for NATS and its key", field: field.Text{At: &s.Credentials, What: "a file", Empty: true}},
		{key: "subject", doc: "subject of messages to NATS; {type} stands for the type of the event", field: field.Text{At: &s.Subject, Pattern: natsSubject, Most: 256, What: "a subject such as dragoman.events.{type}"}},
		{key: "ca_file", doc: "PEM file of the roots to trust for it instead of the system's", field: field.Text{At: &s.CAFile, What: "a PEM file", Empty: true}},
		{key: "timeout", doc: "how long an attempt may take", field: field.Duration{At: &s.Timeout, Least: 100 * time.Millisecond, Most: time.Minute}},
		{key: "max_attempts", doc: "attempts to deliver an event, before it becomes a dead letter", field: field.Int{At: &s.MaxAttempts, Least: 1, Most: 1000}},
		{key: "retry_backoff", doc: "pause before the second attempt, doubled before each further one up to 30s", field: field.Duration{At: &s.RetryBackoff, Least: time.Millisecond, Most: 30 * time.Second}},
		{key: "retry_time", doc: "how old an event may be for another attempt", field: field.Duration{At: &s.RetryTime, Least: time.Second, Most: day}},
		{key: "concurrency", doc: "attempts at a time", field: field.Int{At: &s.Concurrency, Least: 1, Most: 256}},
		{key: "batch", doc: "most events in a request of mode batched", field: field.Int{At: &s.Batch, Least: 1, Most: 1000}},
	}
}

// checkURI accepts an absolute URI.
func checkURI(text string) error {
	if u, err := url.Parse(text); err != nil || u.Scheme == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return &value.Problem{What: value.Quote(value.Shorten(text)) + " is no absolute URI", Fix: "write one such as urn:dragoman:production"}
	}
	return nil
}

// checkSigning accepts a key for signatures.
func checkSigning(text string) error {
	if _, err := webhook.Secret(text); err != nil {
		return &value.Problem{What: err.Error(), Fix: "take what `openssl rand -base64 32` prints, behind whsec_"}
	}
	return nil
}

// sinkTable returns the name of the table of a sink, with a full stop behind it.
func sinkTable(s *EventSink) string { return sinksKey + "." + value.KeyPart(s.Name) + "." }

// checkSinks reports sinks that cannot be reached, and settings that the type of a sink does not have. reported says that something in a table was
// reported before.
func (c *Config) checkSinks(fail func(key string, from value.Source, what, fix string), reported func(table string) bool) {
	for _, s := range c.Events.Sinks {
		table := sinkTable(s)
		if !reported(strings.TrimSuffix(table, ".")) {
			s.checkSink(func(key, what, fix string) { fail(table+key, c.sources[table+key], what, fix) })
		}
	}
}

func (s *EventSink) checkSink(fail func(key, what, fix string)) {
	first, _, _ := strings.Cut(s.URL, ",")
	u, _ := url.Parse(first) // it was parsed before
	nats := u != nil && (u.Scheme == "nats" || u.Scheme == "tls")
	switch {
	case s.URL == "":
		fail(UrlKey, "is missing", "write where the events go, such as https://example.com/events")
		return
	case nats != (s.Type == NATS):
		fail(UrlKey, fmt.Sprintf("is not that of a sink of type %s", s.Type), `write an http or https URL for a webhook, and nats://HOST:4222 with type = "nats" for NATS`)
		return
	}
	if s.Type == NATS && s.Mode == Batched {
		fail("mode", "is batched, which NATS has not", "write structured or binary")
	}
	for key, set := range map[string]bool{secretPart: s.Secret.Reveal() != "", headersKey: len(s.Headers) > 0} {
		if set && nats {
			fail(key, "is for a webhook", "remove it")
		}
	}
	for key, set := range map[string]bool{"authorization": s.Authorization.Reveal() != "", "credentials": s.Credentials != ""} {
		if set && !nats {
			fail(key, "is for NATS", "write a header for a webhook")
		}
	}
	if s.Credentials != "" {
		if _, err := os.Stat(s.Credentials); err != nil {
			fail("credentials", fmt.Sprintf("%q cannot be read: %v", value.Shorten(s.Credentials), value.Reason(err)), "check the path")
		}
	}
	s.checkClear(fail)
}

// checkClear reports credentials that others could read on their way.
func (s *EventSink) checkClear(fail func(key, what, fix string)) {
	for address := range strings.SplitSeq(s.URL, ",") {
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "http" && u.Scheme != "nats" || proxy.IsLoopbackHost(u.Hostname()) {
			continue
		}
		if len(s.Headers) > 0 {
			fail(headersKey, "would be sent in the clear to "+value.Shorten(u.Hostname()), "write an https URL")
		}
		if s.Authorization.Reveal() != "" {
			fail("authorization", "would be sent in the clear to "+value.Shorten(u.Hostname()), "write a tls URL")
		}
	}
}
