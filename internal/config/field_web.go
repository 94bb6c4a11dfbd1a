package config

import (
	"net/url"
	"strconv"
	"strings"
	"time"
)

// linkField is an https URL, or an http one of this machine: what is sent there is secret, or decides who is let in.
type linkField struct{ at *string }

func (f linkField) Set(v Literal) error {
	text, ok := v.plainText()
	u, err := url.Parse(text)
	switch {
	case ok && text == "":
	case !ok || err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || HasControl(text):
		return problemf("%s is not a URL", v.show())
	case u.Scheme != "https" && (u.Scheme != "http" || !Loopback(u.Hostname())):
		return problemf("%s is not https, and not on this machine", v.show())
	}
	*f.at = text
	return nil
}

func (f linkField) text() string { return Quote(*f.at) }

func (f linkField) Allowed() string { return "an https URL, or an http one on the loopback" }

// timeField is a point in time.
type timeField struct{ at *time.Time }

func (f timeField) Set(v Literal) error {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, v.Text); err == nil {
			*f.at = t
			return nil
		}
	}
	return problemf("%s is not a time", v.show())
}

func (f timeField) text() string { return Quote(f.at.UTC().Format(time.RFC3339)) }

func (f timeField) Allowed() string {
	return `a date such as 2027-01-31, or a time such as "2027-01-31T12:00:00Z"`
}

// endpointField is the address of a collector.
type endpointField struct{ at *string }

func (f endpointField) Set(v Literal) error {
	text, ok := v.plainText()
	if !ok {
		return problemf("must be text, not %s", v.Kind)
	}
	if text == "" {
		*f.at = ""
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || HasControl(text) {
		return &problem{what: "is not an http or https URL", fix: `write one such as "http://127.0.0.1:4318"; OTLP over gRPC, usually at port 4317, is not spoken`}
	}
	if u.User != nil || u.Fragment != "" || u.RawQuery != "" {
		return &problem{what: "has user information, a query or a fragment", fix: "remove them; what the collector wants to know of us goes into tracing.headers"}
	}
	*f.at = text
	return nil
}

func (f endpointField) text() string { return Quote(*f.at) }

func (f endpointField) Allowed() string { return "an http or https URL, or empty" }

// ratioField is a part of 1.
type ratioField struct{ at *float64 }

func (f ratioField) Set(v Literal) error {
	if v.Kind != floatLiteral && v.Kind != integerLiteral && v.Kind != wordLiteral {
		return problemf("must be a number, not %s", v.show())
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(v.Text, "_", ""), 64)
	switch {
	case err != nil:
		return problemf("must be a number, not %s", v.show())
	case !(n >= 0 && n <= 1):
		return problemf("%s is out of range", v.Text)
	}
	*f.at = n
	return nil
}

func (f ratioField) text() string { return strconv.FormatFloat(*f.at, 'g', -1, 64) }

func (f ratioField) Allowed() string { return "0 to 1" }

func (f endpointField) notation() notation {
	return notation{kind: "URL", bounds: f.Allowed(), shape: shape{Type: stringType, Pattern: webPattern}}
}

func (f ratioField) notation() notation {
	one := int64(1)
	return notation{kind: "number", bounds: f.Allowed(), shape: shape{Type: jsonTypes{"number"}, Minimum: new(int64), Maximum: &one}}
}

// checkURLField is an address to be asked for.
type checkURLField struct{ at *string }

func (f checkURLField) Set(v Literal) error {
	text, ok := v.plainText()
	if !ok {
		return problemf("must be text, not %s", v.Kind)
	}
	if text == "" {
		*f.at = ""
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || HasControl(text) {
		return &problem{what: "is not an http or https URL", fix: `write one such as "https://example.com/health"`}
	}
	if u.User != nil || u.Fragment != "" {
		return &problem{what: "has user information or a fragment", fix: "remove them; headers of the upstream go to its own address only"}
	}
	*f.at = text
	return nil
}

func (f checkURLField) text() string { return Quote(RedactURL(*f.at)) }

func (f checkURLField) Allowed() string { return "an http or https URL" }
