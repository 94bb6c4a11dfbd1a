package events

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
	"unicode/utf8"

	"dragoman/proxy/wire"
)

// Media types of the JSON format of CloudEvents.
const (
	Structured = "application/cloudevents+json"
	Batched    = "application/cloudevents-batch+json"
)

// AppendJSON appends an event in the JSON format of CloudEvents 1.0.
func (e *Event) AppendJSON(dst []byte) []byte {
	b := wire.NewBuilder(nil)
	b.Raw = append(dst, b.Raw...)
	b.Text("specversion", e.SpecVersion)
	b.Text("id", e.ID)
	b.Text("source", e.Source)
	b.Text("type", e.Type)
	b.Some("subject", e.Subject)
	b.Text("time", e.time())
	for _, name := range e.names() {
		b.Text(name, e.Extensions[name])
	}
	b.Some("dataschema", e.DataSchema)
	if e.Data != nil {
		b.Text("datacontenttype", e.media())
		b.Add("data", e.Data)
	} else {
		b.Some("datacontenttype", e.DataContentType)
	}
	return b.Done()
}

func (e *Event) time() string { return e.Time.Format(time.RFC3339Nano) }

// media returns the media type of the data.
func (e *Event) media() string {
	if e.DataContentType != "" {
		return e.DataContentType
	}
	return jsonMedia
}

// Header is an attribute in the binary mode of CloudEvents over HTTP and NATS: the name begins with ce-, the value is percent-encoded.
type Header struct{ Name, Value string }

// Headers returns the attributes of an event in the binary mode. The first is the content type, which is that of the data.
func (e *Event) Headers() []Header {
	all := []Header{{"Content-Type", e.media()}, {"ce-specversion", e.SpecVersion}, {"ce-id", encode(e.ID)}, {"ce-source", encode(e.Source)},
		{"ce-type", encode(e.Type)}, {"ce-time", e.time()}}
	for _, x := range [...]Header{{"ce-subject", e.Subject}, {"ce-dataschema", e.DataSchema}} {
		if x.Value != "" {
			all = append(all, Header{x.Name, encode(x.Value)})
		}
	}
	for _, name := range e.names() {
		all = append(all, Header{"ce-" + name, encode(e.Extensions[name])})
	}
	return all
}

// encode percent-encodes a value for a header: space, quotation mark, percent sign, and what is not printable ASCII (CloudEvents 1.0, HTTP
// binding §3.1.3.2).
func encode(value string) string {
	const digits = "0123456789ABCDEF"
	plain := func(c byte) bool { return c > ' ' && c < 0x7f && c != '"' && c != '%' }
	var b strings.Builder
	for i := range len(value) {
		if c := value[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}

// Key identifies an event among those of all sources, for receivers that drop repeats: source and id, encoded as in headers, with a space between.
func (e *Event) Key() string { return encode(e.Source) + " " + encode(e.ID) }

// ShortKey is a [Event.Key] of fixed length and of letters and digits: half of a SHA-256 in hexadecimal. Of several events it identifies
// them all.
func ShortKey(all []*Event) string {
	hash := sha256.New()
	for _, e := range all {
		hash.Write([]byte(e.Key() + "\n"))
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

// Parse reads an event in the JSON format of CloudEvents 1.0, and validates it. Extensions that are numbers or booleans become their text. The
// event refers to nothing of raw. The error is an *InvalidError.
func Parse(raw []byte) (*Event, error) {
	if len(raw) > MaxSize {
		return nil, invalid("data", "makes the event too large")
	}
	whole, err := wire.ScanValue(raw)
	if err != nil || !whole.IsObject(raw) {
		return nil, invalid("specversion", "is missing, as this is no JSON object")
	}
	e, seen := &Event{}, map[string]bool{}
	for k, v := range wire.Members(raw, whole) {
		name := string(k.Text(raw))
		if seen[name] {
			return nil, invalid(name, "is there twice")
		}
		seen[name] = true
		if err := e.take(name, raw, v); err != nil {
			return nil, err
		}
	}
	return e, e.Validate()
}

// take sets an attribute from a member of the JSON format.
func (e *Event) take(name string, raw []byte, v wire.Span) error {
	switch name {
	case "data":
		e.Data = append([]byte{}, v.Of(raw)...)
		return nil
	case dataBase64:
		return invalid(name, "is not accepted; fix: send data as JSON")
	}
	literal := v.Of(raw)
	if string(literal) == "null" {
		return nil // as if it were absent (JSON format §2.2)
	}
	text := v.IsString(raw)
	value := string(literal)
	if text {
		value = string(v.Text(raw))
		if !utf8.ValidString(value) {
			return invalid(name, "is not UTF-8")
		}
	}
	known := map[string]*string{"id": &e.ID, "source": &e.Source, "specversion": &e.SpecVersion, "type": &e.Type, "subject": &e.Subject,
		"datacontenttype": &e.DataContentType, "dataschema": &e.DataSchema}
	at := known[name]
	switch {
	case (at != nil || name == "time") && !text:
		return invalid(name, "is no string")
	case at != nil && value == "":
		return invalid(name, "is empty")
	case at != nil:
		*at = value
	case name == "time":
		if err := e.Time.UnmarshalText([]byte(value)); err != nil {
			return invalid(name, "is no time of RFC 3339; fix: send one such as 2025-10-18T12:00:00Z")
		}
	case literal[0] == '{' || literal[0] == '[':
		return invalid(name, "is an object or an array")
	default:
		if e.Extensions == nil {
			e.Extensions = map[string]string{}
		}
		e.Extensions[name] = value
	}
	return nil
}
