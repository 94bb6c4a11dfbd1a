package proxy

import (
	"errors"
	"fmt"
	"strconv"

	"dragoman/proxy/wire"
)

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
	HeadTooLarge      = Fault{"request_head_too_large", CodeInvalidRequest, 431, false, "client", BadArguments}

	Unreachable      = Fault{"upstream_unreachable", CodeInternal, 0, true, "upstream", Unavailable}
	UpstreamDown     = Fault{"upstream_down", CodeInternal, 0, true, "upstream", Unavailable}
	Lost             = Fault{"upstream_lost", CodeInternal, 0, false, "upstream", Unavailable}
	BadAnswer        = Fault{"upstream_bad_answer", CodeInternal, 0, false, "upstream", Failed}
	ResponseTooLarge = Fault{"response_too_large", CodeInternal, 0, false, "upstream", Failed}
	HTTPStatus       = Fault{"upstream_http_status", CodeInternal, 0, false, "upstream", Failed}
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

	NoKeys          = Fault{"issuer_unavailable", CodeInternal, 503, true, "dragoman", Unavailable}
	TooFast         = Fault{"rate_limited", CodeInternal, 0, true, "client", RateLimited}
	Busy            = Fault{"too_busy", CodeInternal, 0, true, "dragoman", Unavailable}
	TooManySessions = Fault{"too_many_sessions", CodeInternal, 0, true, "dragoman", Unavailable}
	TooManyParked   = Fault{"too_many_questions", CodeInternal, 0, false, "dragoman", Unavailable}
	ShuttingDown    = Fault{"shutting_down", CodeInternal, 0, true, "dragoman", Unavailable}
	Internal        = Fault{"internal", CodeInternal, 0, false, "dragoman", Broken}
)

// ErrCancelled is the cause of an exchange whose client has left or has cancelled it.
var ErrCancelled = errors.New("proxy: cancelled by the client")

// ErrDraining is the cause of a listen that ends because the proxy is about to stop.
var ErrDraining = errors.New("proxy: draining")

// Error is an error that a client may see.
type Error struct {
	Fault
	Message    string
	Data       []byte // raw JSON for error.data; nil: made from the fault if Code is CodeInternal
	RetryAfter int    // seconds; 0: unknown
	Challenge  string // WWW-Authenticate for clients over HTTP, with the status of the row; empty: none
	Cause      error  // for the log, never for the client
}

// Errf returns an Error of a row of the table. A %w operand becomes its Cause, too.
func Errf(f Fault, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Fault: f, Message: err.Error(), Cause: errors.Unwrap(err)}
}

// Error implements error.
func (e *Error) Error() string { return e.Name + ": " + e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// AppendJSON appends the error object: code, message, and data. Errors with CodeInternal have data.code and data.retryable, so that a
// program can decide without the message.
func (e *Error) AppendJSON(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"code":`...), int64(e.Code), 10)
	dst = wire.AppendText(append(dst, `,"message":`...), e.Message)
	switch {
	case e.Data != nil:
		dst = append(append(dst, `,"data":`...), e.Data...)
	case e.Code == CodeInternal:
		dst = wire.AppendText(append(dst, `,"data":{"code":`...), e.Name)
		dst = strconv.AppendBool(append(dst, `,"retryable":`...), e.Retryable)
		if e.RetryAfter > 0 {
			dst = strconv.AppendInt(append(dst, `,"retryAfter":`...), int64(e.RetryAfter), 10)
		}
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// AsError returns the Error in err, or one without internal details.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	if errors.Is(err, ErrCancelled) {
		return &Error{Fault: Cancelled, Message: "the request was cancelled", Cause: err}
	}
	if errors.Is(err, ErrDraining) {
		return &Error{Fault: ShuttingDown, Message: "the proxy is shutting down", Cause: err}
	}
	return &Error{Fault: Internal, Message: "internal error; the log of Dragoman has the cause", Cause: err}
}
