package config

import (
	"fmt"
	"strings"
	"time"

	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
)

func tracingKeys() []setting[Config] {
	time1 := func(pick func(*TracingConfig) *time.Duration, least time.Duration) func(*Config) field.Field {
		return func(c *Config) field.Field {
			return field.Duration{At: pick(&c.Tracing), Least: least, Most: time.Minute}
		}
	}
	return []setting[Config]{
		{Key: "tracing.endpoint", std: "", doc: "OTLP collector for traces over HTTP; empty: no tracing",
			field: func(c *Config) field.Field { return field.Endpoint{At: &c.Tracing.Endpoint} }},
		{Key: TracingHeadersKey, doc: "header sent with every request to the collector; VALUE may be env:NAME or file:/path", open: true, entry: tracingHeader},
		{Key: "tracing.sample_ratio", std: "1", doc: "share of the traces begun here that is recorded; for others the sender's decision holds",
			field: func(c *Config) field.Field { return field.Ratio{At: &c.Tracing.SampleRatio} }},
		{Key: "tracing.timeout", std: "10s", doc: "timeout of one request to the collector",
			field: time1(func(t *TracingConfig) *time.Duration { return &t.Timeout }, 100*time.Millisecond)},
		{Key: "tracing.queue", std: "2048", doc: "most spans that wait to be sent; further ones are dropped",
			field: func(c *Config) field.Field { return field.Int{At: &c.Tracing.Queue, Least: 1, Most: 100_000} }},
		{Key: "tracing.batch", std: "512", doc: "most spans in one request",
			field: func(c *Config) field.Field { return field.Int{At: &c.Tracing.Batch, Least: 1, Most: 10_000} }},
		{Key: "tracing.wait", std: "5s", doc: "how long spans wait for a batch to fill",
			field: time1(func(t *TracingConfig) *time.Duration { return &t.Wait }, 10*time.Millisecond)},
		{Key: "tracing.ca_file", std: "", doc: "PEM file of the roots to trust for the collector instead of the system's",
			field: func(c *Config) field.Field { return field.Text{At: &c.Tracing.CAFile, What: "a PEM file", Empty: true} }},
	}
}

// tracingHeader returns the field of one header; the last one written wins.
func tracingHeader(c *Config, name string) (field.Field, error) {
	if !HeaderName.MatchString(name) {
		return nil, &value.Problem{What: fmt.Sprintf("%q is not a header name", value.Shorten(name)), Fix: "write a name such as Authorization (RFC 9110 §5.6.2)"}
	}
	if why, own := ownHeaders[strings.ToLower(name)]; own {
		return nil, &value.Problem{What: fmt.Sprintf("the header %s cannot be set: %s", name, why), Fix: "remove it"}
	}
	store := func(value value.Secret) {
		for i := range c.Tracing.Headers {
			if strings.EqualFold(c.Tracing.Headers[i].Name, name) {
				c.Tracing.Headers[i] = Header{Name: name, Value: value}
				return
			}
		}
		c.Tracing.Headers = append(c.Tracing.Headers, Header{Name: name, Value: value})
	}
	return field.SecretText{Store: store, Check: checkHeaderValue, What: `the header's value, "env:NAME" or "file:/path"`}, nil
}
