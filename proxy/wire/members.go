package wire

import "bytes"

// A level is one of the objects whose members Scan records.
type level uint8

const (
	topMembers level = iota
	paramsMembers
	metaMembers
	resultMembers
	resultMetaMembers
	errorMembers
)

// slot returns the field of m for the member key of an object of this level, and the level of the member's value, if Scan reads that,
// too. It returns nil for members that Scan does not record.
func (l level) slot(m *Message, key []byte) (slot *Span, below level) {
	switch l {
	case topMembers:
		return topSlot(m, key)
	case paramsMembers:
		return paramsSlot(m, key)
	case metaMembers:
		return metaSlot(m, key), 0
	case resultMembers:
		switch string(key) {
		case "resultType":
			return &m.ResultType, 0
		case "inputRequests":
			return &m.InputRequests, 0
		case "isError":
			return &m.IsError, 0
		case "requestState":
			return &m.ReqState, 0
		case "structuredContent":
			return &m.Structured, 0
		case "_meta":
			return &m.Meta, resultMetaMembers
		}
	case resultMetaMembers: // it may echo the request's _meta: its clientInfo is ignored
		switch string(key) {
		case MetaPrefix + "serverInfo":
			return &m.Info, 0
		case MetaPrefix + "subscriptionId":
			return &m.Subscription, 0
		}
	case errorMembers:
		switch string(key) {
		case "message":
			return &m.ErrorText, 0
		case "data":
			return &m.ErrorData, 0
		}
	}
	return nil, 0
}

func topSlot(m *Message, key []byte) (*Span, level) {
	switch string(key) {
	case "id":
		return &m.ID, 0
	case "method":
		return &m.Method, 0
	case "params":
		return &m.Params, paramsMembers
	case "result":
		return &m.Result, resultMembers
	case "error":
		return &m.Error, errorMembers
	}
	return nil, 0
}

func paramsSlot(m *Message, key []byte) (*Span, level) {
	switch string(key) {
	case "_meta":
		return &m.Meta, metaMembers
	case "name":
		return &m.Name, 0
	case "uri":
		return &m.URI, 0
	case "taskId":
		return &m.TaskID, 0
	case "arguments":
		return &m.Arguments, 0
	case "cursor":
		return &m.Cursor, 0
	case "level":
		return &m.Level, 0
	case "requestId":
		return &m.RequestID, 0
	case "progressToken":
		return &m.ProgressToken, 0
	case "inputResponses":
		return &m.InputResponses, 0
	case "requestState":
		return &m.ReqState, 0
	case "task":
		return &m.Task, 0
	case "protocolVersion":
		return &m.ParamsVersion, 0
	case "capabilities":
		return &m.ParamsCaps, 0
	case "clientInfo":
		return &m.ParamsInfo, 0
	case "notifications":
		return &m.Notifications, 0
	}
	return nil, 0
}

// MetaPrefix begins the reserved keys of _meta (2026-07-28 basic, _meta).
const MetaPrefix = "io.modelcontextprotocol/"

// MetaServer is the member of a request's _meta that names the server for which the request is, where several are one.
const MetaServer = "io.dragoman/server"

func metaSlot(m *Message, key []byte) *Span {
	switch string(key) {
	case "progressToken":
		return &m.Token
	case MetaServer:
		return &m.Server
	}
	rest, ok := bytes.CutPrefix(key, []byte(MetaPrefix))
	if !ok {
		return nil
	}
	switch string(rest) {
	case "protocolVersion":
		return &m.Version
	case "clientCapabilities":
		return &m.Caps
	case "clientInfo":
		return &m.Info
	case "logLevel":
		return &m.LogLevel
	case "subscriptionId":
		return &m.Subscription
	}
	return nil
}

// guarded lists, for each level, the names whose other spellings are refused: those that decide the kind, the destination and the sender
// of a message.
var guarded = [...][]string{
	topMembers:    {"jsonrpc", "id", "method", "params", "result", "error"},
	paramsMembers: {"_meta", "name", "uri", "taskId", "arguments", "requestId", "inputResponses", "requestState"},
	metaMembers:   {"progressToken", MetaPrefix + "protocolVersion", MetaPrefix + "clientCapabilities", MetaPrefix + "logLevel"},
	resultMembers: {"resultType", "inputRequests", "_meta"},
	errorMembers:  {"code"},
}

// variant reports whether key, which is none of the names of this level, would be one for a reader that ignores case, such as Go's
// encoding/json.
func (l level) variant(key []byte) bool {
	for _, name := range guarded[l] {
		// Only U+017F and U+212A, which are longer, fold to a name of another length.
		if len(key) >= len(name) && len(key) <= 3*len(name) && bytes.EqualFold(key, []byte(name)) {
			return true
		}
	}
	return false
}
