package events

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// ErrFull is the error of an event for which a sink had no room, nor had the dead letters. Other sinks may have taken it.
var ErrFull = errors.New("events: a sink and the dead letters had no room; fix: raise events.queue, or see why the sink is slow")

// Settings say where events go.
type Settings struct {
	// Source is the URI of Dragoman itself. That of a server of it is Source/servers/NAME.
	Source string
	Types  []string // of the events that go anywhere; a trailing * matches any ending
	Routes []Route
}

// Route is a sink and the types that it gets. A trailing * matches any ending.
type Route struct {
	Types []string
	Queue *Queue
}

// match reports whether one of the patterns matches a type.
func match(patterns []string, typ string) bool {
	for _, pattern := range patterns {
		if prefix, open := strings.CutSuffix(pattern, "*"); pattern == typ || open && strings.HasPrefix(typ, prefix) {
			return true
		}
	}
	return false
}

// Emitter takes events in and queues them for the sinks. It has no goroutine. Its methods may be called from any goroutine, do not wait, and
// do nothing for a nil Emitter.
type Emitter struct {
	settings                   atomic.Pointer[Settings]
	accepted, invalid, refused atomic.Uint64
}

// Set replaces the settings; nil: events go nowhere.
func (e *Emitter) Set(s *Settings) { e.settings.Store(s) }

// now returns the settings; nil: events go nowhere.
func (e *Emitter) now() *Settings {
	if e == nil {
		return nil
	}
	return e.settings.Load()
}

// Wants reports whether any sink gets events of a type.
func (e *Emitter) Wants(typ string) bool { return e.now().wants(typ) }

func (s *Settings) wants(typ string) bool {
	if s == nil || !match(s.Types, typ) {
		return false
	}
	for i := range s.Routes {
		if match(s.Routes[i].Types, typ) {
			return true
		}
	}
	return false
}

// Stats returns how many events were accepted, of those that a sink wants, how many were not valid, and for how many there was no room.
func (e *Emitter) Stats() (accepted, invalid, refused uint64) {
	return e.accepted.Load(), e.invalid.Load(), e.refused.Load()
}

// Emit validates an event and queues it for each sink that gets its type. Nil means that all of these have queued it, or that it is a dead letter. The error
// is an *InvalidError or ErrFull. The event must not be changed afterwards.
func (e *Emitter) Emit(event *Event) error {
	s := e.now()
	if s == nil {
		return nil
	}
	if err := event.Validate(); err != nil {
		e.invalid.Add(1)
		return err
	}
	wanted, taken, sent := false, true, match(s.Types, event.Type)
	for i := range s.Routes {
		if sent && match(s.Routes[i].Types, event.Type) {
			wanted = true
			taken = s.Routes[i].Queue.Put(event) && taken
		}
	}
	switch {
	case !taken:
		e.refused.Add(1)
		return ErrFull
	case wanted:
		e.accepted.Add(1)
	}
	return nil
}

// Own is an event of Dragoman's own.
type Own struct {
	Type    string
	Server  string // that it is about; empty: Dragoman itself
	Subject string // what it is about there; empty: all of it
	Trace   string // traceparent of the request that led to it; empty: none
	// Data writes the members of the data.
	Data func(b *wire.Builder)
}

// longestTrace bounds a traceparent, which clients choose, in bytes. Version 00 has 55.
const longestTrace = 128

// Report emits an event of Dragoman's own, unless no sink gets its type. An event for which there is no room is counted only.
func (e *Emitter) Report(o Own) {
	s := e.now()
	if !s.wants(o.Type) {
		return
	}
	b := wire.NewBuilder(nil)
	o.Data(b)
	event := &Event{ID: proxy.NewRequestID(), Source: s.source(o.Server), SpecVersion: SpecVersion, Type: o.Type, Subject: subject(o.Subject), Time: time.Now().UTC(), Data: b.Done()}
	if o.Trace != "" && len(o.Trace) <= longestTrace && wire.IsShown(o.Trace) {
		event.Extensions = map[string]string{"traceparent": o.Trace}
	}
	_ = e.Emit(event) // it is counted, and the caller cannot help it
}

// subject returns a text that a peer chose as the value of an attribute. Escapes can make it longer than one may be.
func subject(text string) string {
	shown := wire.Shown(text)
	return strings.ToValidUTF8(shown[:min(len(shown), maxAttribute)], "")
}

// longestServer bounds the escaped name of a server in a source, in bytes. Those that there are have shorter ones.
const longestServer = 256

// source returns the URI of a server. Requests may name a server that there is not, and whose name fits into no URI: that is Dragoman's own.
func (s *Settings) source(server string) string {
	name := url.PathEscape(server)
	if name == "" || len(name) > longestServer || !utf8.ValidString(server) {
		return s.Source
	}
	return fmt.Sprintf("%s/servers/%s", strings.TrimSuffix(s.Source, "/"), name)
}
