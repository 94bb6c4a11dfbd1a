// Package events sends CloudEvents 1.0 to sinks. An [Emitter] checks each event and queues it for the sinks whose patterns its type matches; it
// never waits. A [Queue] delivers to one sink, in the order of each source, and gives what cannot be delivered to a file of dead letters.
//
// The types are our own: the SDK of CloudEvents for Go links an XML codec, and a JSON codec that works by reflection, which make the binary a
// fifth larger. Tests read what is written here with the SDK.
package events

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"dragoman/proxy/wire"
)

// SpecVersion is the version of CloudEvents that an Event has.
const SpecVersion = "1.0"

// Bounds of an Event.
const (
	MaxSize       = 256 << 10 // bytes of data and attributes together
	maxAttribute  = 1024      // bytes of the value of an attribute
	maxExtensions = 32
	maxName       = 64 // bytes of the name of an extension
)

// jsonMedia is the media type of data where an event has none.
const jsonMedia = "application/json"

// Event is a CloudEvent whose data is JSON. It is not changed once it is emitted.
type Event struct {
	ID          string // unique among the events of the source
	Source      string // URI of what the event is about
	SpecVersion string // "1.0"
	Type        string // such as dev.dragoman.tool.called
	Subject     string // within the source; empty: none
	Time        time.Time

	DataContentType string // empty: application/json
	DataSchema      string // URI; empty: none
	// Extensions are further attributes, by names of lower-case letters and digits.
	Extensions map[string]string
	Data       []byte // JSON; nil: none
}

// InvalidError reports an event that is not valid CloudEvents 1.0.
type InvalidError struct {
	Attribute string // that is wrong
	Problem   string
}

// Error implements error.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("events: the attribute %s %s", wire.Shown(e.Attribute), e.Problem)
}

func invalid(attribute, problem string) error { return &InvalidError{attribute, problem} }

// Validate checks an event against CloudEvents 1.0 and the bounds above. Beyond the specification, source is an absolute URI, time is required, and
// data is JSON (seed 002, CloudEvent). The error is an *InvalidError.
func (e *Event) Validate() error {
	if e.SpecVersion != SpecVersion {
		return invalid("specversion", fmt.Sprintf("is %q; fix: send %q", wire.Shown(e.SpecVersion), SpecVersion))
	}
	for _, x := range [...]struct {
		name, value string
		required    bool
	}{{"id", e.ID, true}, {"source", e.Source, true}, {"type", e.Type, true}, {"subject", e.Subject, false}, {"datacontenttype", e.DataContentType, false}, {"dataschema", e.DataSchema, false}} {
		if x.value == "" && x.required {
			return invalid(x.name, "is missing; fix: give it a value that is not empty")
		}
		if err := checkText(x.name, x.value); err != nil {
			return err
		}
	}
	if !isURI(e.Source) {
		return invalid("source", "is no absolute URI (RFC 3986); fix: send one such as urn:provider:hello-go")
	}
	if e.DataSchema != "" && !isURI(e.DataSchema) {
		return invalid("dataschema", "is no absolute URI (RFC 3986)")
	}
	if e.Time.IsZero() {
		return invalid("time", "is missing; fix: send the time of the event (RFC 3339)")
	}
	if y := e.Time.UTC().Year(); y < 1 || y > 9999 {
		return invalid("time", "has a year that RFC 3339 cannot write")
	}
	if err := e.checkExtensions(); err != nil {
		return err
	}
	return e.checkData()
}

func (e *Event) checkExtensions() error {
	if len(e.Extensions) > maxExtensions {
		return invalid("extensions", fmt.Sprintf("are %d; at most %d are allowed", len(e.Extensions), maxExtensions))
	}
	for name, value := range e.Extensions {
		if !isName(name) {
			return invalid(name, "has no name of 1 to 64 lower-case letters and digits")
		}
		if slices.Contains(coreNames, name) {
			return invalid(name, "is defined by CloudEvents, and is no extension")
		}
		if err := checkText(name, value); err != nil {
			return err
		}
	}
	return nil
}

func (e *Event) checkData() error {
	if size := e.Size(); size > MaxSize {
		return invalid("data", fmt.Sprintf("makes the event %d bytes large; at most %d are allowed", size, MaxSize))
	}
	if e.DataContentType != "" && (!isJSON(e.DataContentType) || strings.ContainsFunc(e.DataContentType, func(r rune) bool { return r >= 0x7f })) {
		return invalid("datacontenttype", fmt.Sprintf("is %q; fix: send data as %s", wire.Shown(e.DataContentType), jsonMedia))
	}
	if e.Data == nil {
		return nil
	}
	if _, err := wire.ScanValue(e.Data); err != nil {
		return invalid("data", fmt.Sprintf("is not JSON: %v", err))
	}
	return nil
}

// coreNames are the attributes that CloudEvents defines, and members of the JSON format.
var coreNames = []string{"id", "source", "specversion", "type", "subject", "time", "datacontenttype", "dataschema", "data", dataBase64}

const dataBase64 = "data_base64"

// isName reports whether a text may name an attribute (CloudEvents 1.0, Naming Conventions).
func isName(name string) bool {
	return name != "" && len(name) <= maxName && !strings.ContainsFunc(name, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
}

// checkText checks a value of the type String: no control characters, no noncharacters (CloudEvents 1.0, Type System).
func checkText(name, value string) error {
	switch {
	case len(value) > maxAttribute:
		return invalid(name, fmt.Sprintf("has %d bytes; at most %d are allowed", len(value), maxAttribute))
	case !utf8.ValidString(value):
		return invalid(name, "is not UTF-8")
	case strings.ContainsFunc(value, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Noncharacter_Code_Point, r) }):
		return invalid(name, "has control characters")
	}
	return nil
}

// isURI reports whether a text is an absolute URI of the characters that RFC 3986 allows.
func isURI(text string) bool {
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"<>\\^`{|}", r) }) {
		return false
	}
	u, err := url.Parse(text)
	return err == nil && u.Scheme != "" && len(text) > len(u.Scheme)+1
}

// isJSON reports whether a media type is one of JSON (CloudEvents 1.0, JSON format §3.1).
func isJSON(media string) bool {
	base, _, _ := strings.Cut(media, ";")
	base = strings.ToLower(strings.TrimSpace(base))
	return base == jsonMedia || base == "text/json" || strings.HasSuffix(base, "+json")
}

// overhead is about how many bytes an event takes besides its texts.
const overhead = 512

// Size returns about how many bytes of memory the event takes.
func (e *Event) Size() int {
	n := overhead + len(e.ID) + len(e.Source) + len(e.Type) + len(e.Subject) + len(e.DataContentType) + len(e.DataSchema) + len(e.Data)
	for name, value := range e.Extensions {
		n += len(name) + len(value) + 32
	}
	return n
}

// names returns the names of the extensions, sorted.
func (e *Event) names() []string { return slices.Sorted(maps.Keys(e.Extensions)) }
