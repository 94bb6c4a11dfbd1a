package proxy

import "fmt"

// Faults lists the error table in its order: every failure that Dragoman can report to a client (seed 003, McpErrorMapping).
func Faults() []Fault {
	return []Fault{Parse, InvalidRequest, InvalidParams, InvalidEnvelope, MethodNotFound, HeaderMismatch, MissingCapability, BadVersion,
		BadState, Unanswered, RequestTooLarge, BadMediaType, NotAcceptable, ForbiddenOrigin, SessionUnknown, SessionMissing, DuplicateID,
		Cancelled, ServerUnknown, ToolUnknown, ArgumentsInvalid, PathUnknown, VerbUnknown, RequestSlow, HeadTooLarge,
		Unauthenticated, BadCredentials, InsufficientScope,
		Unreachable, UpstreamDown, Lost, BadAnswer, ResponseTooLarge, HTTPStatus, Refused, Overloaded, UpstreamLimited, UpstreamFailed, SessionLost, EraUnknown, Question, Translation,
		UpstreamTimeout, NoToken, ResultInvalid,
		NoKeys, TooFast, Busy, TooManySessions, TooManyParked, ShuttingDown, Internal}
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
	if f.Code != CodeInternal && f.Name != ArgumentsInvalid.Name {
		return ""
	}
	more := ""
	switch f.Name {
	case Lost.Name, Unreachable.Name, UpstreamTimeout.Name: // of a child: how it ended, and what it said last
		more = `,"exitCode":{"type":"integer"},"signal":{"type":"string"},"stderr":{"type":"array","items":{"type":"string"}}`
	case Translation.Name:
		more = `,"originalCode":{"type":"integer"}`
	case ArgumentsInvalid.Name, ResultInvalid.Name:
		more = `,"path":{"type":"string","description":"JSON Pointer to the value"},` +
			`"rule":{"type":"string","description":"the keyword of the schema that it breaks"}`
	}
	return fmt.Sprintf(`{"type":"object","required":["code","retryable"],"properties":{"code":{"const":%q},"retryable":{"const":%t},`+
		`"retryAfter":{"type":"integer","minimum":1,"description":"seconds"}%s}}`, f.Name, f.Retryable, more)
}
