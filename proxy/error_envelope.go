package proxy

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
	if f.Status != 0 {
		return f.Status
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
