package services

import "fmt"

// endless are streams that the server does not end.
var endless = map[string]bool{
	"grpc.health.v1.Health.Watch":                          true,
	"xds.service.orca.v3.OpenRcaService.StreamCoreMetrics": true,
	"v3electionpb.Election.Observe":                        true,
}

// unready are tools that are called by trials only, and why.
var unready = map[string]string{
	"RouteGuide.ListFeatures": "the server of grpc-go dies of a rectangle without corners",
	"Lock.Lock":               "a second call waits until the lease of the first is over",
	"Election.Campaign":       "a second call waits until the lease of the first is over",
}

// trials are the calls at each server.
var trials = map[string][]trial{"routes": routes, "otlp": otlp, "reflected": append(interop, statuses()...), "etcd": etcd}

var routes = []trial{
	{tool: "RouteGuide.GetFeature", args: `{"latitude":409146138,"longitude":-746188906}`,
		want: `{"name":"Berkshire Valley Management Area Trail, Jefferson, NJ, USA","location":{"latitude":409146138,"longitude":-746188906}}`},
	{tool: "RouteGuide.GetFeature", args: `{"latitude":1,"longitude":1}`, want: `{"name":""}`},
	{tool: "RouteGuide.ListFeatures", args: `{"lo":{"latitude":400000000,"longitude":-750000000},"hi":{"latitude":405000000,"longitude":-740000000}}`},
	{tool: "RouteGuide.ListFeatures", args: `{"lo":{"latitude":1,"longitude":1},"hi":{"latitude":2,"longitude":2}}`, want: `{"messages":[]}`},
}

var otlp = []trial{
	{tool: "TraceService.Export", args: `{"resourceSpans":[{"scopeSpans":[{"scope":{"name":"s"},"spans":[{"traceId":"MDEyMzQ1Njc4OWFiY2RlZg==","spanId":"MDEyMzQ1Njc=","name":"n",
		"startTimeUnixNano":"1","endTimeUnixNano":"2","kind":"SPAN_KIND_SERVER","attributes":[{"key":"k","value":{"intValue":"9007199254740993"}}]}]}]}]}`},
	{tool: "TraceService.Export", args: `{"resourceSpans":[{"scopeSpans":[{"scope":{"name":"refused"},"spans":[{"name":"n"}]}]}]}`, status: "INTERNAL"},
	{tool: "MetricsService.Export", args: `{"resourceMetrics":[{"scopeMetrics":[{"scope":{"name":"s"},"metrics":[{"name":"m","gauge":{"dataPoints":[{"timeUnixNano":"1","asDouble":1.5}]}}]}]}]}`},
	{tool: "MetricsService.Export", args: `{"resourceMetrics":[{"scopeMetrics":[{"scope":{"name":"refused"},"metrics":[{"name":"m","gauge":{"dataPoints":[{"asInt":"1"}]}}]}]}]}`, status: "INTERNAL"},
	{tool: "LogsService.Export", args: `{"resourceLogs":[{"scopeLogs":[{"scope":{"name":"s"},"logRecords":[{"timeUnixNano":"1","severityNumber":"SEVERITY_NUMBER_INFO","body":{"stringValue":"b"}}]}]}]}`},
	{tool: "LogsService.Export", args: `{"resourceLogs":[{"scopeLogs":[{"scope":{"name":"refused"},"logRecords":[{"body":{"stringValue":"b"}}]}]}]}`, status: "INTERNAL"},
}

var interop = []trial{
	{tool: "TestService.EmptyCall", args: `{}`, want: `{}`},
	{tool: "TestService.UnaryCall", args: `{"responseSize":3,"payload":{"body":"YQ=="}}`, want: `{"payload":{"type":"COMPRESSABLE","body":"AAAA"}}`},
	{tool: "TestService.UnaryCall", args: `{"responseSize":314159}`},
	{tool: "TestService.UnaryCall", args: `{"responseSize":-1}`, status: "UNKNOWN", message: "requested a response with invalid length -1"},
	{tool: "TestService.UnaryCall", args: fmt.Sprintf(`{"payload":{"body":%q}}`, b64(string(make([]byte, 271828)))), want: `{"payload":{"body":""}}`},
	{tool: "TestService.CacheableUnaryCall", args: `{"responseSize":1}`, status: "UNIMPLEMENTED"},
	{tool: "TestService.StreamingOutputCall", args: `{"responseParameters":[{"size":1},{"size":2},{"size":0},{"size":3}]}`,
		want: `{"messages":[{"payload":{"body":"AA=="}},{"payload":{"body":"AAA="}},{"payload":{"body":""}},{"payload":{"body":"AAAA"}}]}`},
	{tool: "TestService.StreamingOutputCall", args: `{"responseParameters":[{"size":31415},{"size":9},{"size":2653},{"size":58979}]}`},
	{tool: "TestService.StreamingOutputCall", args: `{"responseParameters":[{"size":1},{"size":-1}]}`, status: "UNKNOWN", message: "requested a response with invalid length -1"},
	{tool: "TestService.StreamingOutputCall", args: `{}`, want: `{"messages":[]}`},
	{tool: "UnimplementedService.UnimplementedCall", args: `{}`, status: "UNIMPLEMENTED", message: "method UnimplementedCall not implemented"},
	{tool: "Health.Check", args: `{}`, want: `{"status":"SERVING"}`},
	{tool: "Health.Check", args: `{"service":"none"}`, status: "NOT_FOUND", message: "unknown service"},
	{tool: "Channelz.GetTopChannels", args: `{}`, want: `{"end":true}`},
	{tool: "Channelz.GetServers", args: `{}`, want: `{"end":true}`, keep: "server=server/ref/serverId"},
	{tool: "Channelz.GetServer", args: `{"serverId":"${server}"}`, want: `{"server":{"ref":{"serverId":"${server}"}}}`},
	{tool: "Channelz.GetServerSockets", args: `{"serverId":"${server}"}`, keep: "socket=socketRef/socketId"},
	{tool: "Channelz.GetSocket", args: `{"socketId":"${socket}"}`, live: true, want: `{"socket":{"ref":{"socketId":"${socket}"}}}`},
	{tool: "Channelz.GetServer", args: `{"serverId":"9223372036854775807"}`, status: "NOT_FOUND", message: "requested server 9223372036854775807 not found"},
}

// statuses are calls that end with each status of gRPC (interoperability tests, status_code_and_message).
func statuses() (all []trial) {
	for code, name := range []string{"CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
		"FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"} {
		for _, message := range []string{"test status message", "ä: ☺ \\\"quoted\\\""} {
			all = append(all, trial{tool: "TestService.UnaryCall", args: fmt.Sprintf(`{"responseStatus":{"code":%d,"message":"%s"}}`, code+1, message), status: name})
		}
	}
	return all
}
