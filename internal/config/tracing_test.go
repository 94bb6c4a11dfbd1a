package config

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"dragoman/internal/testkit"
)

func TestTracingConfig(t *testing.T) {
	for text, want := range map[string]string{
		"endpoint = \"\"":                               "",
		"endpoint = \"http://127.0.0.1:4318\"":          "",
		"endpoint = \"https://otel.example/v1/traces\"": "",
		"endpoint = \"127.0.0.1:4318\"":                 "is not an http or https URL",
		"endpoint = \"grpc://otel.example:4317\"":       "OTLP over gRPC, usually at port 4317, is not spoken",
		"endpoint = \"http://u:p@otel.example\"":        "what the collector wants to know of us goes into tracing.headers",
		"endpoint = \"http://otel.example/?key=1\"":     "a query",
		"endpoint = 4318":                               "must be text",
		"sample_ratio = 0.001":                          "",
		"sample_ratio = 1":                              "",
		"sample_ratio = 1.1":                            "0 to 1",
		"sample_ratio = -0.1":                           "0 to 1",
		"sample_ratio = nan":                            "out of range",
		"sample_ratio = \"1\"":                          "must be a number",
		"queue = 0":                                     "1 to 100000",
		"batch = 100000":                                "1 to 10000",
		"wait = \"1ms\"":                                "10ms to 1m",
		"timeout = \"2m\"":                              "100ms to 1m",
		"endpont = \"\"":                                "did you mean tracing.endpoint?",
		"headers = { \"a b\" = \"x\" }":                 "is not a header name",
		"headers = { Content-Type = \"x\" }":            "Dragoman writes the body",
		"headers = { A = \"x\\ny\" }":                   "contains a control character",
		"headers = { A = \"env:NOT_THERE\" }":           "NOT_THERE",
		"headers = { A = \"x\", a = \"y\" }":            "contradicts tracing.headers.A",
		"headers = { \"a.b\" = \"x\" }":                 "",
	} {
		_, err := load(t, testkit.WriteFile(t, "c.toml", "[tracing]\n"+text+"\n"), nil)
		if got := errorLines(err, "c.toml"); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %s; want %s", text, got, want)
		}
	}
}

// Header values are resolved and never shown; the rest is printed so that it can be read again; each key has a variable.
func TestTracingValues(t *testing.T) {
	text := "[tracing]\nendpoint = \"http://a.example/otel/\"\nsample_ratio = 0.25\nheaders = { X-A = \"env:KEY\", \"x-b\" = \"zq-two\" }\n"
	c, err := load(t, testkit.WriteFile(t, "c.toml", text), []string{"KEY=zq-one", "DRAGOMAN_TRACING_QUEUE=7", "DRAGOMAN_TRACING_SAMPLE_RATIO=0.5", "OTEL_EXPORTER_OTLP_ENDPOINT=http://theirs"})
	if err != nil {
		t.Fatal(err)
	}
	x := c.Tracing
	if x.Traces() != "http://a.example/otel/v1/traces" || x.SampleRatio != 0.5 || x.Queue != 7 || len(x.Headers) != 2 || x.Headers[0].Value.Reveal() != "zq-one" || x.Timeout != 10*time.Second {
		t.Errorf("%+v", x)
	}
	var out bytes.Buffer
	if err := c.PrintTOML(&out); err != nil {
		t.Fatal(err)
	}
	if s := out.String(); strings.Contains(s, "zq-") || !strings.Contains(s, "# tracing.headers.X-A (set, hidden)") || !strings.Contains(s, "tracing.headers.x-b") {
		t.Errorf("printed: %s", s)
	}
	again, err := load(t, testkit.WriteFile(t, "again.toml", out.String()), nil)
	if err != nil || again.Tracing.Endpoint != x.Endpoint || again.Tracing.SampleRatio != 0.5 {
		t.Errorf("read again: %v", err)
	}
	if off, err := load(t, testkit.WriteFile(t, "off.toml", ""), []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://theirs"}); err != nil || off.Tracing.Endpoint != "" {
		t.Errorf("%v: another program's variable enabled tracing", err)
	}
}
