// Package otlp sends spans to a collector: OTLP over HTTP in protobuf, with OpenTelemetry's own SDK. It adds what the SDK lacks: the
// queue is bounded and counted, failures are reported once a minute, and Close returns in time.
package otlp
