package wire

// Kind says what a message is.
type Kind uint8

// The kinds of JSON-RPC message. A Batch is an array of messages, which only revision 2025-03-26 knows.
const (
	Invalid Kind = iota
	Request
	Notification
	Result
	Failure
	Batch
)

// String names the kind for logs.
func (k Kind) String() string {
	return [...]string{"invalid", "request", "notification", "result", "failure", "batch"}[k]
}

// Message is one JSON-RPC message: its bytes, and the positions of the members that a proxy needs. It borrows Raw for as long as its
// source says.
type Message struct {
	Raw  []byte // without leading byte order mark and surrounding space
	Kind Kind
	// Lines is set if there are raw line ends between the tokens. Such a message must be flattened before it is written as one
	// line.
	Lines bool
	plain bool // no string in it has an escape: the bytes of a string are its characters

	ID, Method, Params, Result, Error Span

	// Members of params.
	Name, URI, TaskID        Span // what the request is about: a tool or prompt, a resource, a task
	Arguments                Span // of tools/call and prompts/get
	Cursor                   Span // of the lists
	Level                    Span // of logging/setLevel and notifications/message
	RequestID                Span // of notifications/cancelled
	ProgressToken            Span // of notifications/progress: params.progressToken
	InputResponses, ReqState Span // of a retry (2026-07-28, SEP-2322); ReqState also of a result that asks for one
	Task                     Span // params.task of 2025-11-25
	ParamsVersion            Span // params.protocolVersion of initialize
	ParamsCaps, ParamsInfo   Span // params.capabilities and params.clientInfo of initialize
	Notifications            Span // params.notifications of subscriptions/listen
	Meta                     Span // params._meta of a request or notification, result._meta of a result

	// Members of _meta.
	Token         Span // progressToken
	Version       Span // io.modelcontextprotocol/protocolVersion
	Caps          Span // io.modelcontextprotocol/clientCapabilities
	Info          Span // io.modelcontextprotocol/clientInfo, or serverInfo in a result
	LogLevel      Span // io.modelcontextprotocol/logLevel
	Subscription  Span // io.modelcontextprotocol/subscriptionId
	Server        Span // io.dragoman/server: for which server a request is, where several are one
	ResultType    Span // result.resultType
	InputRequests Span // result.inputRequests
	IsError       Span // result.isError
	Structured    Span // result.structuredContent

	// ErrorCode is error.code of a Failure; 0 if it is absent or not an integer.
	ErrorCode int
	ErrorText Span // error.message
	ErrorData Span // error.data

	// Edits are the changes that Append applies, ordered by position, without overlaps.
	Edits []Edit
}

// Is reports whether the message's method is want.
func (m *Message) Is(want string) bool { return m.At(m.Method, want) }

// At reports whether the value at s is the string want; see Span.Is.
func (m *Message) At(s Span, want string) bool {
	if m.plain {
		return int(s.To-s.From) == len(want)+2 && m.Raw[s.From] == '"' && string(m.Raw[s.From+1:s.To-1]) == want
	}
	return s.Is(m.Raw, want)
}

// Text returns the characters of the string at s; see Span.Text.
func (m *Message) Text(s Span) []byte {
	if m.plain && s.IsString(m.Raw) {
		return m.Raw[s.From+1 : s.To-1]
	}
	return s.Text(m.Raw)
}

// Of returns the bytes at s; see Span.Of.
func (m *Message) Of(s Span) []byte { return s.Of(m.Raw) }

// IsResponse reports whether the message answers a request.
func (m *Message) IsResponse() bool { return m.Kind == Result || m.Kind == Failure }

// ToolFailed reports whether the message is a result with isError (2026-07-28 tools, Error Handling).
func (m *Message) ToolFailed() bool { return string(m.Of(m.IsError)) == "true" }

// Whole returns the span of the message itself.
func (m *Message) Whole() Span { return Span{0, uint32(len(m.Raw))} } //nolint:gosec // Scan refuses larger input
