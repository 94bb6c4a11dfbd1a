package proxy

import "fmt"

// The JSON-RPC codes of Dragoman's own errors (2026-07-28 basic, Error Codes).
const (
	CodeParse              = -32700
	CodeInvalidRequest     = -32600
	CodeMethodNotFound     = -32601
	CodeInvalidParams      = -32602
	CodeInternal           = -32603
	CodeHeaderMismatch     = -32020
	CodeMissingCapability  = -32021
	CodeUnsupportedVersion = -32022
	CodeResourceNotFound   = -32002 // legacy revisions only
	CodeURLElicitation     = -32042 // 2025-11-25 only
)

// Fault is one row of the error table: a failure of Dragoman itself or of the connection to the server, as a client sees it.
type Fault struct {
	Name      string       // data.code: stable, for programs
	Code      int          // the JSON-RPC code
	Status    int          // the HTTP status for clients over HTTP; 0: the status that the era has for Code
	Retryable bool         // data.retryable: the same request may succeed later and cannot run a tool twice
	Blame     string       // whose fault it is: client, upstream, dragoman
	Envelope  EnvelopeCode // the code for REST callers
}

// The error table. Every failure that is not the server's own answer is one of these rows; the message says what happened to this
// request and what fixes it.
var (
	Parse             = Fault{"parse_error", CodeParse, 400, false, "client", BadArguments}
	InvalidRequest    = Fault{"invalid_request", CodeInvalidRequest, 400, false, "client", BadArguments}
	InvalidParams     = Fault{"invalid_params", CodeInvalidParams, 0, false, "client", BadArguments}
	InvalidEnvelope   = Fault{"invalid_envelope", CodeInvalidParams, 400, false, "client", BadArguments}
	MethodNotFound    = Fault{"method_not_found", CodeMethodNotFound, 0, false, "client", NoSuchTool}
	HeaderMismatch    = Fault{"header_mismatch", CodeHeaderMismatch, 400, false, "client", BadArguments}
	MissingCapability = Fault{"missing_capability", CodeMissingCapability, 400, false, "client", BadArguments}
	BadVersion        = Fault{"unsupported_version", CodeUnsupportedVersion, 400, false, "client", BadArguments}
	BadState          = Fault{"request_state_invalid", CodeInvalidParams, 400, false, "client", BadArguments}
	Unanswered        = Fault{"question_unanswered", CodeInternal, 0, false, "client", Failed}
	RequestTooLarge   = Fault{"request_too_large", CodeInvalidRequest, 413, false, "client", BadArguments}
	BadMediaType      = Fault{"unsupported_media_type", CodeInvalidRequest, 415, false, "client", BadArguments}
	NotAcceptable     = Fault{"not_acceptable", CodeInvalidRequest, 406, false, "client", BadArguments}
	ForbiddenOrigin   = Fault{"forbidden_origin", CodeInvalidRequest, 403, false, "client", BadArguments}
	SessionUnknown    = Fault{"session_unknown", CodeInvalidRequest, 404, false, "client", BadArguments}
	SessionMissing    = Fault{"session_missing", CodeInvalidRequest, 400, false, "client", BadArguments}
	DuplicateID       = Fault{"duplicate_request_id", CodeInvalidRequest, 0, false, "client", BadArguments}
	Cancelled         = Fault{"cancelled", CodeInternal, 0, false, "client", Failed}
	ServerUnknown     = Fault{"server_unknown", CodeInvalidRequest, 404, false, "client", NoSuchTool}
	ToolUnknown       = Fault{"tool_not_found", CodeInvalidParams, 0, false, "client", NoSuchTool}
	ArgumentsInvalid  = Fault{"arguments_invalid", CodeInvalidParams, 0, false, "client", BadArguments}
	PathUnknown       = Fault{"path_not_found", CodeInvalidRequest, 404, false, "client", BadArguments}
	VerbUnknown       = Fault{"http_method_not_allowed", CodeInvalidRequest, 405, false, "client", BadArguments}
	RequestSlow       = Fault{"request_incomplete", CodeInvalidRequest, 408, false, "client", BadArguments}
	Unauthenticated   = Fault{"unauthenticated", CodeInvalidRequest, 401, false, "client", BadArguments}
	BadCredentials    = Fault{"invalid_credentials", CodeInvalidRequest, 401, false, "client", BadArguments}
	InsufficientScope = Fault{"insufficient_scope", CodeInvalidRequest, 403, false, "client", BadArguments}
	PolicyDenied      = Fault{"policy_denied", CodeInternal, 0, false, "client", BadArguments}
	LoopDetected      = Fault{"loop_detected", CodeInvalidRequest, 421, false, "client", BadArguments}
	HeadTooLarge      = Fault{"request_head_too_large", CodeInvalidRequest, 431, false, "client", BadArguments}

	Unreachable      = Fault{"upstream_unreachable", CodeInternal, 0, true, "upstream", Unavailable}
	UpstreamDown     = Fault{"upstream_down", CodeInternal, 0, true, "upstream", Unavailable}
	Lost             = Fault{"upstream_lost", CodeInternal, 0, false, "upstream", Unavailable}
	BadAnswer        = Fault{"upstream_bad_answer", CodeInternal, 0, false, "upstream", Failed}
	ResponseTooLarge = Fault{"response_too_large", CodeInternal, 0, false, "upstream", Failed}
	HTTPStatus       = Fault{"upstream_http_status", CodeInternal, 0, false, "upstream", Failed}
	GRPCStatus       = Fault{"upstream_grpc_status", CodeInternal, 0, false, "upstream", Failed}
	Refused          = Fault{"upstream_refused_credentials", CodeInternal, 0, false, "upstream", Failed}
	Overloaded       = Fault{"upstream_overloaded", CodeInternal, 0, true, "upstream", Unavailable}
	UpstreamLimited  = Fault{"upstream_rate_limited", CodeInternal, 0, true, "upstream", RateLimited}
	UpstreamFailed   = Fault{"upstream_internal_error", CodeInternal, 0, false, "upstream", Broken}
	SessionLost      = Fault{"upstream_session_lost", CodeInternal, 0, true, "upstream", Unavailable}
	EraUnknown       = Fault{"upstream_era_unknown", CodeInternal, 0, true, "upstream", Unavailable}
	Question         = Fault{"question_not_supported", CodeInternal, 0, false, "upstream", Failed}
	Translation      = Fault{"upstream_code_not_translatable", CodeInternal, 0, false, "upstream", Failed}
	UpstreamTimeout  = Fault{"upstream_timeout", CodeInternal, 0, false, "upstream", TimedOut}
	NoToken          = Fault{"upstream_token_unavailable", CodeInternal, 0, true, "upstream", Unavailable}
	ResultInvalid    = Fault{"result_invalid", CodeInternal, 0, false, "upstream", Failed}
	DefinitionHeld   = Fault{"definition_held", CodeInternal, 0, false, "upstream", NoSuchTool}

	NoKeys            = Fault{"issuer_unavailable", CodeInternal, 503, true, "dragoman", Unavailable}
	PolicyUnavailable = Fault{"policy_unavailable", CodeInternal, 0, true, "dragoman", Unavailable}
	TooFast           = Fault{"rate_limited", CodeInternal, 0, true, "client", RateLimited}
	Busy              = Fault{"too_busy", CodeInternal, 0, true, "dragoman", Unavailable}
	TooManySessions   = Fault{"too_many_sessions", CodeInternal, 0, true, "dragoman", Unavailable}
	TooManyParked     = Fault{"too_many_questions", CodeInternal, 0, false, "dragoman", Unavailable}
	ShuttingDown      = Fault{"shutting_down", CodeInternal, 0, true, "dragoman", Unavailable}
	Internal          = Fault{"internal", CodeInternal, 0, false, "dragoman", Broken}
)

// Faults lists the error table in its order: every failure that Dragoman can report to a client (seed 003, McpErrorMapping).
func Faults() []Fault {
	return []Fault{Parse, InvalidRequest, InvalidParams, InvalidEnvelope, MethodNotFound, HeaderMismatch, MissingCapability, BadVersion,
		BadState, Unanswered, RequestTooLarge, BadMediaType, NotAcceptable, ForbiddenOrigin, SessionUnknown, SessionMissing, DuplicateID,
		Cancelled, ServerUnknown, ToolUnknown, ArgumentsInvalid, PathUnknown, VerbUnknown, RequestSlow, HeadTooLarge,
		Unauthenticated, BadCredentials, InsufficientScope, PolicyDenied, LoopDetected,
		Unreachable, UpstreamDown, Lost, BadAnswer, ResponseTooLarge, HTTPStatus, GRPCStatus, Refused, Overloaded, UpstreamLimited, UpstreamFailed, SessionLost, EraUnknown, Question, Translation,
		UpstreamTimeout, NoToken, ResultInvalid, DefinitionHeld,
		NoKeys, PolicyUnavailable, TooFast, Busy, TooManySessions, TooManyParked, ShuttingDown, Internal}
}

// DataSchema returns the JSON Schema 2020-12 of error.data; empty if the row has none. A server's own data passes unchanged, under
// any code.
func (f Fault) DataSchema() string {
	switch f.Name {
	case BadVersion.Name:
		return `{"type":"object","required":["supported"],"properties":{` +
			`"supported":{"type":"array","items":{"type":"string"},"minItems":1},"requested":{"type":"string"}}}`
	case MissingCapability.Name:
		return `{"type":"object","required":["requiredCapabilities"],"properties":{"requiredCapabilities":{"type":"object"}}}`
	}
	if f.Code != CodeInternal && f.Name != ArgumentsInvalid.Name && f.Name != ServerUnknown.Name {
		return ""
	}
	more := ""
	switch f.Name {
	case Lost.Name, Unreachable.Name, UpstreamTimeout.Name: // of a child: how it ended, and what it said last
		more = `,"exitCode":{"type":"integer"},"signal":{"type":"string"},"stderr":{"type":"array","items":{"type":"string"}}`
	case ServerUnknown.Name:
		more = `,"servers":{"type":"array","items":{"type":"string"},"description":"the servers that there are"}`
	case Translation.Name:
		more = `,"originalCode":{"type":"integer"}`
	case ArgumentsInvalid.Name, ResultInvalid.Name:
		more = `,"path":{"type":"string","description":"JSON Pointer to the value"},` +
			`"rule":{"type":"string","description":"the keyword of the schema that it breaks"}`
	}
	return fmt.Sprintf(`{"type":"object","required":["code","retryable"],"properties":{"code":{"const":%q},"retryable":{"const":%t},`+
		`"retryAfter":{"type":"integer","minimum":1,"description":"seconds"}%s}}`, f.Name, f.Retryable, more)
}

// EnvelopeCode is an error code of the REST envelope (seed 000, ErrorCode): a closed set that callers switch on.
type EnvelopeCode string

// The error codes of the envelope.
const (
	NoSuchTool   EnvelopeCode = "TOOL_NOT_FOUND"
	BadArguments EnvelopeCode = "INVALID_ARGUMENTS"
	Failed       EnvelopeCode = "EXECUTION_ERROR"
	Broken       EnvelopeCode = "INTERNAL_ERROR"
	TimedOut     EnvelopeCode = "TIMEOUT"
	RateLimited  EnvelopeCode = "RATE_LIMITED"
	Unavailable  EnvelopeCode = "SERVICE_UNAVAILABLE"
)

// EnvelopeCodes lists the codes in the seed's order.
func EnvelopeCodes() []EnvelopeCode {
	return []EnvelopeCode{NoSuchTool, BadArguments, Failed, Broken, TimedOut, RateLimited, Unavailable}
}

// Status returns the HTTP status of the code (seed 000, HTTP Status Code Mapping).
func (c EnvelopeCode) Status() int {
	switch c {
	case NoSuchTool:
		return 404
	case BadArguments:
		return 400
	case TimedOut:
		return 504
	case RateLimited:
		return 429
	case Unavailable:
		return 503
	}
	return 500
}

// RESTStatus returns the HTTP status for REST callers: the row's own, else that of its code.
func (f Fault) RESTStatus() int {
	switch {
	case f.Status != 0:
		return f.Status
	case f.Name == PolicyDenied.Name: // to MCP clients it is no error of HTTP, after which some end their session
		return 403
	}
	return f.Envelope.Status()
}

// EnvelopeOf returns the code for a server's own JSON-RPC error, judged by its number.
func EnvelopeOf(code int) EnvelopeCode {
	switch code {
	case CodeInvalidParams, CodeInvalidRequest, CodeParse, CodeResourceNotFound, CodeMissingCapability:
		return BadArguments
	case CodeMethodNotFound:
		return NoSuchTool
	}
	return Failed
}
