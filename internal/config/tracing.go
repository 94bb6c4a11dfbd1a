package config

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// TracingConfig says where spans of requests go, and of which. OTEL_ variables of the environment are not followed, but for
// OTEL_RESOURCE_ATTRIBUTES: hosts that trace themselves hand theirs down to the servers that they start, which would then send
// what those never asked for.
type TracingConfig struct {
	// Endpoint is an OTLP collector that takes protobuf over HTTP, http or https; "" (default): nobody traces. What
	// does not end in /v1/traces gets that behind it.
	Endpoint string
	// Headers go with every post to it.
	Headers []Header
	// SampleRatio is how many of the traces that begin here are recorded, 0 to 1, default 1. Requests that come in a trace are
	// recorded if that is.
	SampleRatio float64
	// Timeout bounds one post. 100 ms to 1 min, default 10 s.
	Timeout time.Duration
	// Queue is how many spans wait to be sent, Batch how many go in one post, Wait how long they wait for one to fill.
	// 1 to 100000, default 2048; 1 to 10000, default 512; 10 ms to 1 min, default 5 s.
	Queue, Batch int
	Wait         time.Duration
	// CAFile has the roots to trust instead of the system's, PEM; "": those.
	CAFile string
}

// tracingHeadersKey is the table of what goes with every post to the collector.
const tracingHeadersKey = "tracing.headers"

// tracesPath is where a collector takes spans (OTLP/HTTP).
const tracesPath = "/v1/traces"

func tracingKeys() []setting[Config] {
	time1 := func(pick func(*TracingConfig) *time.Duration, least time.Duration) func(*Config) field {
		return func(c *Config) field { return durationField{at: pick(&c.Tracing), least: least, most: time.Minute} }
	}
	return []setting[Config]{
		{Key: "tracing.endpoint", std: "", doc: "OTLP collector that takes traces over HTTP; empty: nobody traces",
			field: func(c *Config) field { return endpointField{at: &c.Tracing.Endpoint} }},
		{Key: tracingHeadersKey, doc: "header sent with every post to the collector; VALUE may be env:NAME or file:/path", open: true, entry: tracingHeader},
		{Key: "tracing.sample_ratio", std: "1", doc: "how many of the traces that begin here are recorded; one that began elsewhere is as it was there",
			field: func(c *Config) field { return ratioField{at: &c.Tracing.SampleRatio} }},
		{Key: "tracing.timeout", std: "10s", doc: "time for one post to the collector",
			field: time1(func(t *TracingConfig) *time.Duration { return &t.Timeout }, 100*time.Millisecond)},
		{Key: "tracing.queue", std: "2048", doc: "spans that wait to be sent; further ones are dropped",
			field: func(c *Config) field { return intField{at: &c.Tracing.Queue, least: 1, most: 100_000} }},
		{Key: "tracing.batch", std: "512", doc: "spans in one post, if as many wait",
			field: func(c *Config) field { return intField{at: &c.Tracing.Batch, least: 1, most: 10_000} }},
		{Key: "tracing.wait", std: "5s", doc: "how long spans wait for a batch to fill",
			field: time1(func(t *TracingConfig) *time.Duration { return &t.Wait }, 10*time.Millisecond)},
		{Key: "tracing.ca_file", std: "", doc: "PEM file of the roots to trust for the collector instead of the system's",
			field: func(c *Config) field { return textField{at: &c.Tracing.CAFile, what: "a PEM file", empty: true} }},
	}
}

// Traces is where spans are posted to.
func (c *TracingConfig) Traces() string {
	if strings.HasSuffix(c.Endpoint, tracesPath) {
		return c.Endpoint
	}
	return strings.TrimSuffix(c.Endpoint, "/") + tracesPath
}

// tracingHeader is the place of one header; the last one written wins.
func tracingHeader(c *Config, name string) (field, error) {
	if !headerName.MatchString(name) {
		return nil, &problem{what: fmt.Sprintf("%q is not a header name", Shorten(name)), fix: "write a name such as Authorization (RFC 9110 §5.6.2)"}
	}
	if why, own := ownHeaders[strings.ToLower(name)]; own {
		return nil, &problem{what: fmt.Sprintf("the header %s cannot be set: %s", name, why), fix: "remove it"}
	}
	store := func(value Secret) {
		for i := range c.Tracing.Headers {
			if strings.EqualFold(c.Tracing.Headers[i].Name, name) {
				c.Tracing.Headers[i] = Header{Name: name, Value: value}
				return
			}
		}
		c.Tracing.Headers = append(c.Tracing.Headers, Header{Name: name, Value: value})
	}
	return secretField{store: store, check: checkHeaderValue, what: `the header's value, "env:NAME" or "file:/path"`}, nil
}

// printedTracing lists the headers, without values.
func (c *Config) printedTracing() (all []printed) {
	for _, h := range c.Tracing.Headers {
		from := c.sources[tracingHeadersKey+"."+KeyText([]string{strings.ToLower(h.Name)})]
		all = append(all, newPrinted(tracingHeadersKey+"."+KeyText([]string{h.Name}), "", from, true))
	}
	return all
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

func (f endpointField) text() string    { return Quote(*f.at) }
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

func (f ratioField) text() string    { return strconv.FormatFloat(*f.at, 'g', -1, 64) }
func (f ratioField) Allowed() string { return "0 to 1" }

func (f endpointField) notation() notation {
	return notation{kind: "URL", bounds: f.Allowed(), shape: shape{Type: stringType, Pattern: webPattern}}
}

func (f ratioField) notation() notation {
	one := int64(1)
	return notation{kind: "number", bounds: f.Allowed(), shape: shape{Type: jsonTypes{"number"}, Minimum: new(int64), Maximum: &one}}
}
