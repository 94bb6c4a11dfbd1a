// Package services calls every method of gRPC services that others wrote through a running Dragoman, and compares what comes back with what a
// direct call of gRPC says.
//
// The servers are processes of their own: etcd of Debian, the route guide of grpc-go, the receiver of OpenTelemetry's Collector (otlp), what
// grpc-go has as packages (reflected), and Qdrant's definitions with made answers (definitions). Dragoman is the released binary with all of
// them as upstreams. The clients are those of MCP's Go SDK, of both eras, and at one server as well as at all servers as one.
//
// It is a module of its own, with tests only, so that Dragoman does not depend on what the servers need.
package services
