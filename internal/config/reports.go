package config

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"dragoman/adapters/events/webhook"
	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
	"dragoman/policies"
	"dragoman/proxy"
)

// checkAudit reports an audit.file that cannot exist.
func (l *loader) checkAudit() {
	c := &l.cfg.Audit
	if c.File != "" && c.Enabled {
		l.checkFile(auditFileKey, c.File)
	}
}

// checkFile reports a file that is to be appended to and cannot be.
func (l *loader) checkFile(key, path string) {
	fail := func(what, fix string) {
		l.fail(key, l.cfg.sources[key], fmt.Sprintf("%q is %s", value.Shorten(path), what), fix)
	}
	if isLink(path) {
		fail("a symbolic link, which is not followed", "set it to the file that it leads to")
	} else if isDirectory(path) {
		fail("a directory", "name a file in it")
	} else if !isDirectory(filepath.Dir(path)) {
		fail("in no directory that there is", "create the directory")
	} else if err := writable(path); err != nil {
		fail(fmt.Sprintf("not writable: %v", value.Reason(err)), "check its owner and its mode")
	}
}

// writable returns why a file cannot be written; nil if it can, or is not there. Others than regular files are not opened: a named pipe
// would wait for its reader, which would take the end of the check for that of the trail.
func writable(path string) error {
	info, err := os.Stat(path)
	switch {
	case os.IsNotExist(err), err == nil && !info.Mode().IsRegular():
		return nil
	case err != nil:
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	return f.Close() // nothing was written
}

// isLink reports whether path is a symbolic link other than those below /dev, such as /dev/stdout, which are followed.
func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0 && !strings.HasPrefix(path, "/dev/")
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
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
		{key: "ca_file", doc: "PEM file of the roots to trust for it instead of the system's", field: pemFile(&s.CAFile)},
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

// checkEvents reports sinks that cannot be reached, and settings that the type of a sink does not have.
func (l *loader) checkEvents() {
	e := &l.cfg.Events
	if e.DeadLetter != "" && len(e.Sinks) > 0 {
		l.checkFile(deadKey, e.DeadLetter)
	}
	for _, s := range e.Sinks {
		l.checkSink(s)
	}
}

func (l *loader) checkSink(s *EventSink) {
	table := sinksKey + "." + value.KeyPart(s.Name) + "."
	if l.reported(strings.TrimSuffix(table, ".")) {
		return
	}
	fail := func(key, what, fix string) { l.fail(table+key, l.cfg.sources[table+key], what, fix) }
	l.checkRoots(s.CAFile, table+"ca_file")
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
	l.checkClear(s, fail)
}

// checkClear reports credentials that others could read on their way.
func (l *loader) checkClear(s *EventSink, fail func(key, what, fix string)) {
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
