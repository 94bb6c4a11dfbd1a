// Package otlp takes spans to a collector: OTLP over HTTP in protobuf, by OpenTelemetry's own SDK. What the SDK leaves open is settled
// here: what waits is bounded and counted, a failure is told once a minute, and the end comes in time. Spans are made by who has
// the tracer.
package otlp
