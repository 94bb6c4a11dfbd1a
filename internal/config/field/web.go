package field

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"dragoman/internal/config/value"
	"dragoman/proxy"
)

// Link is a field for an https URL, or an http URL on the loopback: what is sent there is secret, or decides who is let
// in.
type Link struct{ At *string }

// Set implements [Field].
func (f Link) Set(v value.Literal) error {
	text, ok := v.PlainText()
	u, err := url.Parse(text)
	switch {
	case ok && text == "":
	case !ok || err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || value.HasControl(text):
		return value.Problemf("%s is not a URL", v.Show())
	case u.Scheme != "https" && (u.Scheme != "http" || !proxy.IsLoopbackHost(u.Hostname())):
		return value.Problemf("%s is not https, and not on this machine", v.Show())
	}
	*f.At = text
	return nil
}

// Text implements [Field].
func (f Link) Text() string { return value.Quote(*f.At) }

// Allowed implements [Field].
func (f Link) Allowed() string { return "an https URL, or an http one on the loopback" }

// Time is a field for a point in time.
type Time struct{ At *time.Time }

// Set implements [Field].
func (f Time) Set(v value.Literal) error {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, v.Text); err == nil {
			*f.At = t
			return nil
		}
	}
	return value.Problemf("%s is not a time", v.Show())
}

// Text implements [Field].
func (f Time) Text() string { return value.Quote(f.At.UTC().Format(time.RFC3339)) }

// Allowed implements [Field].
func (f Time) Allowed() string {
	return `a date such as 2027-01-31, or a time such as "2027-01-31T12:00:00Z"`
}

// parseWeb returns the text of an http or https URL and the URL itself, which has no parts if the text is empty. The
// error for anything else proposes fix.
func parseWeb(v value.Literal, fix string) (string, *url.URL, error) {
	text, ok := v.PlainText()
	if !ok {
		return "", nil, value.Problemf("must be text, not %s", v.Kind)
	}
	u, err := url.Parse(text)
	if text != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || value.HasControl(text)) {
		return "", nil, &value.Problem{What: "is not an http or https URL", Fix: fix}
	}
	return text, u, nil
}

// Endpoint is a field for the address of a collector.
type Endpoint struct{ At *string }

// Set implements [Field].
func (f Endpoint) Set(v value.Literal) error {
	text, u, err := parseWeb(v, `write one such as "http://127.0.0.1:4318"; OTLP over gRPC, usually at port 4317, is not spoken`)
	if err != nil {
		return err
	}
	if u.User != nil || u.Fragment != "" || u.RawQuery != "" {
		return &value.Problem{What: "has user information, a query or a fragment", Fix: "remove them; what the collector wants to know of us goes into tracing.headers"}
	}
	*f.At = text
	return nil
}

// Text implements [Field].
func (f Endpoint) Text() string { return value.Quote(*f.At) }

// Allowed implements [Field].
func (f Endpoint) Allowed() string { return "an http or https URL, or empty" }

// Ratio is a field for a number from 0 to 1.
type Ratio struct{ At *float64 }

// Set implements [Field].
func (f Ratio) Set(v value.Literal) error {
	if v.Kind != value.FloatLiteral && v.Kind != value.IntegerLiteral && v.Kind != value.WordLiteral {
		return value.Problemf("must be a number, not %s", v.Show())
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(v.Text, "_", ""), 64)
	switch {
	case err != nil:
		return value.Problemf("must be a number, not %s", v.Show())
	case !(n >= 0 && n <= 1):
		return value.Problemf("%s is out of range", v.Text)
	}
	*f.At = n
	return nil
}

// Text implements [Field].
func (f Ratio) Text() string { return strconv.FormatFloat(*f.At, 'g', -1, 64) }

// Allowed implements [Field].
func (f Ratio) Allowed() string { return "0 to 1" }

// Notation implements [Notated].
func (f Endpoint) Notation() Notation {
	return Notation{Kind: "URL", Bounds: f.Allowed(), Shape: Shape{Type: StringType, Pattern: webPattern}}
}

// Notation implements [Notated].
func (f Ratio) Notation() Notation {
	one := int64(1)
	return Notation{Kind: "number", Bounds: f.Allowed(), Shape: Shape{Type: JsonTypes{"number"}, Minimum: new(int64), Maximum: &one}}
}

// CheckURL is a field for the address of a health check.
type CheckURL struct{ At *string }

// Set implements [Field].
func (f CheckURL) Set(v value.Literal) error {
	text, u, err := parseWeb(v, `write one such as "https://example.com/health"`)
	if err != nil {
		return err
	}
	if u.User != nil || u.Fragment != "" {
		return &value.Problem{What: "has user information or a fragment", Fix: "remove them; headers of the upstream go to its own address only"}
	}
	*f.At = text
	return nil
}

// Text implements [Field].
func (f CheckURL) Text() string { return value.Quote(value.RedactURL(*f.At)) }

// Allowed implements [Field].
func (f CheckURL) Allowed() string { return "an http or https URL" }
