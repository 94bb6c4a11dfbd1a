package modern

import (
	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// requestsChecks covers the head of a request in 2026-07-28.
func requestsChecks() []*suite.Check {
	const (
		page      = pageHTTP + "Server Validation"
		statement = "Servers that read the body must reject requests whose head does not match it, with 400 and the error -32020."
		why       = "An intermediary that routes by the header and a server that believes the body act on two different requests."
	)
	field := func(name, value string) peer.Field { return peer.Field{Name: name, Value: value} }
	head := func(id, title, fix string, level suite.Level, fields ...peer.Field) *suite.Check {
		return &suite.Check{ID: id, Title: title, Level: level, Faces: httpFace, Page: page, Statement: statement, Why: why, Fix: fix,
			Run: func(t *suite.Trial) {
				k := newRawClient(t)
				k.refuse(k.request("1", "server/discover", nil, nil, fields...), 400, checkutil.HeaderMismatch)
			}}
	}
	named := func(id, title, statement, fix string, fields func(x target) []peer.Field) *suite.Check {
		return &suite.Check{ID: id, Title: title, Level: suite.Must, Faces: httpFace, Page: page, Statement: statement, Why: why, Fix: fix,
			Run: func(t *suite.Trial) {
				x, k := harmlessTarget(t), newRawClient(t)
				k.refuse(k.request("1", x.method, x.params(), nil, fields(x)...), 400, x.refusals()...)
			}}
	}
	double := head("request.method-twice", "Refuses a request with two Mcp-Method lines that differ",
		"Read all field lines of MCP-Protocol-Version and Mcp-*, not only the first. Answer 400 and -32020 where there is more than one.", suite.Should)
	double.Run = func(t *suite.Trial) {
		k := newRawClient(t)
		fields := append(checkutil.ModernHead("server/discover"), field("Mcp-Method", "tools/list"))
		k.refuse(k.send(checkutil.ModernBody("1", "server/discover", nil, nil), fields), 400, checkutil.HeaderMismatch)
	}
	missing := head("request.version-missing", "Does not serve a modern request without MCP-Protocol-Version",
		"Answer 400 and -32020 if the header is missing. Only a server that still speaks 2025-03-26 may take the request as one of that revision.", suite.Must)
	missing.Page = pageHTTP + "Protocol Version Header"
	missing.Statement = "A request without MCP-Protocol-Version must be rejected, unless the server treats it as one of 2025-03-26."
	missing.Run = func(t *suite.Trial) {
		k := newRawClient(t)
		// server/discover, which 2025-03-26 does not know: whichever way the server goes, there is no result.
		k.refuse(k.request("1", "server/discover", nil, nil, peer.Drop("MCP-Protocol-Version")), 0)
	}
	mismatch := head("request.version-mismatch", "Refuses a request whose header and body name different revisions",
		"Compare the header with _meta[\"io.modelcontextprotocol/protocolVersion\"] before anything else, and answer 400 and -32020 (HeaderMismatch) where they differ.",
		suite.Must)
	mismatch.Page = pageHTTP + "Protocol Version Header"
	mismatch.Run = versionMismatch
	mismatch.Statement = "MCP-Protocol-Version must equal the version in _meta; otherwise the answer is 400 with the error -32020."
	return []*suite.Check{
		mismatch, missing,
		head("request.method-mismatch", "Refuses a request whose Mcp-Method is not its method",
			"Compare Mcp-Method with the body's method, case by case, and answer 400 and -32020 where they differ. Do not route by either before that.",
			suite.Must, field("Mcp-Method", "tools/list")),
		head("request.method-case", "Compares Mcp-Method with its case",
			"Header names have no case, their values have. Compare Mcp-Method with the body's method as it is written.",
			suite.Must, field("Mcp-Method", "Server/Discover")),
		head("request.method-missing", "Refuses a request without Mcp-Method",
			"Mcp-Method is required for every request. Answer 400 and -32020 if it is missing.", suite.Must, peer.Drop("Mcp-Method")),
		double,
		named("request.name-mismatch", "Refuses a request whose Mcp-Name is not its name or URI", statement,
			"For tools/call and prompts/get compare Mcp-Name with params.name, for resources/read with params.uri. Answer 400 and -32020 where they differ.",
			func(target) []peer.Field { return []peer.Field{field("Mcp-Name", "something-else")} }),
		named("request.name-missing", "Refuses a request without Mcp-Name where that is required",
			"Mcp-Name is required for tools/call, prompts/get and resources/read; a missing one is answered with 400 and -32020.",
			"Demand Mcp-Name for tools/call, prompts/get and resources/read. Answer 400 and -32020 if it is missing.",
			func(target) []peer.Field { return nil }),
		named("request.name-encoded-mismatch", "Decodes a Base64 Mcp-Name before it compares",
			"Servers must decode an encoded Mcp-Name before comparing it with the body.",
			"Decode values of the form =?base64?…?= and compare the text that comes out. One that decodes to another name is 400 and -32020.",
			func(x target) []peer.Field { return []peer.Field{field("Mcp-Name", encoded("x"+x.name))} }),
		named("request.name-bad-base64", "Refuses a Base64 Mcp-Name that cannot be decoded",
			"A header value with invalid characters is a validation failure: 400 and -32020.",
			"Decode strictly: bad padding or characters outside the alphabet are 400 and -32020. Never take such a value as a literal name.",
			func(target) []peer.Field { return []peer.Field{field("Mcp-Name", "=?base64?%%%?=")} }),
		{
			ID: "request.name-encoded", Title: "Accepts an Mcp-Name in Base64", Level: suite.Must, Faces: httpFace, Page: pageHTTP + "Value Encoding",
			Statement: "Servers must decode an encoded Mcp-Name before comparing it with the body.",
			Why:       "Names and URIs outside ASCII can only be sent encoded: a server that does not decode refuses them all.",
			Fix:       "If Mcp-Name begins with =?base64? and ends with ?=, decode what is between as standard Base64 of UTF-8. Then compare with the body.",
			Run: func(t *suite.Trial) {
				x, k := harmlessTarget(t), newRawClient(t)
				r := k.request("1", x.method, x.params(), nil, field("Mcp-Name", encoded(x.name)))
				if r.message == nil {
					k.Fail("the answer that an Mcp-Name in plain text gets", "no JSON-RPC message, with status %d", r.status)
				} else if code, message, _ := r.message.Error(); code == checkutil.HeaderMismatch {
					k.Fail("the answer that an Mcp-Name in plain text gets", "the error %d: %s", code, message)
				}
			},
		},
	}
}

// versionMismatch names an earlier revision in the body, then in the head. In the second case a server of that revision may refuse the request
// by the rules of that revision.
func versionMismatch(t *suite.Trial) {
	k := newRawClient(t)
	k.refuse(k.request("1", "server/discover", nil, func(meta peer.Object) { meta[peer.MetaVersion] = peer.R2511 }), 400, checkutil.HeaderMismatch)
	r := k.request("2", "server/discover", nil, nil, peer.Field{Name: "MCP-Protocol-Version", Value: peer.R2511})
	if r.message != nil && r.message.Failed() {
		if code, _, _ := r.message.Error(); code != checkutil.HeaderMismatch && isDual(t) {
			k.refuse(r, 400)
			return
		}
	}
	k.refuse(r, 400, checkutil.HeaderMismatch)
}
