package reference

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// The revisions of the reference servers.
const (
	ModernVersion = "2026-07-28"
	LegacyVersion = "2025-11-25"
	// OldestVersion is the revision of clients over HTTP+SSE.
	OldestVersion = "2024-11-05"
)

// Era is the era of a reference server.
type Era string

// The eras of servers. A dual server follows each request.
const (
	Modern Era = "modern"
	Legacy Era = "legacy"
	Dual   Era = "dual"
)

// ParseEra returns the era of this name.
func ParseEra(s string) (Era, error) {
	switch e := Era(s); e {
	case Modern, Legacy, Dual:
		return e, nil
	}
	return "", errors.New("reference: the era must be modern, legacy or dual, not " + strconv.Quote(s))
}

// A Token stands at the start of a call's text argument, and of the text of its answer: ten digits that number the call, eight that give
// the length of the text to return, and the form of the answer. Only Filler follows. This way one server answers in every size and form,
// and every answer can be checked.
const (
	TokenLen  = numberLen + lengthLen + 1
	Filler    = 'x'
	FormJSON  = 'j'
	FormSSE   = 's'
	numberLen = 10
	lengthLen = 8
	// MaxText is the largest text that can be asked for.
	MaxText = 64 << 20
)

// AppendToken appends a token. number has at most ten digits, length is from TokenLen to MaxText, and form is FormJSON or FormSSE.
func AppendToken(dst []byte, number uint64, length int, form byte) []byte {
	dst = appendPadded(dst, number, numberLen)
	dst = appendPadded(dst, uint64(length), lengthLen) //nolint:gosec // G115: a length
	return append(dst, form)
}

// PutNumber overwrites the number of a token in place.
func PutNumber(token []byte, number uint64) {
	appendPadded(token[:0:numberLen], number, numberLen)
}

func appendPadded(dst []byte, n uint64, width int) []byte {
	at := len(dst)
	for range width {
		dst = append(dst, '0')
	}
	for i := at + width - 1; i >= at; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
	return dst
}

// AppendFiller appends n bytes of filler.
func AppendFiller(dst []byte, n int) []byte {
	for n > 0 {
		k := min(n, len(filler))
		dst = append(dst, filler[:k]...)
		n -= k
	}
	return dst
}

var filler = bytes.Repeat([]byte{Filler}, 64<<10)

// request is the part of a message that the servers read.
type request struct {
	id, method, token []byte
	form              byte
	length            int
	version           []byte // requested by initialize
	tools             string // result of tools/list; empty: one tool
}

// legacyVersions are the revisions with initialize.
func legacyVersions() []string {
	return []string{OldestVersion, "2025-03-26", "2025-06-18", LegacyVersion}
}

// negotiated is the revision in the answer to initialize.
func (r *request) negotiated() string {
	if asked := string(r.version); slices.Contains(legacyVersions(), asked) {
		return asked
	}
	return LegacyVersion
}

// parse finds the members by searching for their names. It trusts its own load generator, and relies on proxies to leave compact JSON
// compact.
func parse(raw []byte) request {
	r := request{
		id:     after(raw, `"id":`, ",}"),
		method: after(raw, `"method":"`, `"`),
	}
	if string(r.method) == "initialize" {
		r.version = after(raw, `"protocolVersion":"`, `"`)
	}
	if string(r.method) != "tools/call" {
		return r
	}
	at := bytes.Index(raw, []byte(`"text":"`))
	if at < 0 || len(raw) < at+len(`"text":"`)+TokenLen {
		return r
	}
	token := raw[at+len(`"text":"`):][:TokenLen]
	length, err := strconv.Atoi(string(token[numberLen : numberLen+lengthLen]))
	if err != nil || length < TokenLen || length > MaxText {
		return r
	}
	r.token, r.length, r.form = token, length, token[TokenLen-1]
	return r
}

// after returns the bytes between key and the first of ends; nil if there is no key.
func after(raw []byte, key, ends string) []byte {
	at := bytes.Index(raw, []byte(key))
	if at < 0 {
		return nil
	}
	rest := raw[at+len(key):]
	if key == `"id":` && len(rest) > 0 && rest[0] == '"' { // a string may contain a comma
		if end := bytes.IndexByte(rest[1:], '"'); end >= 0 {
			return rest[:end+2]
		}
		return nil
	}
	if end := bytes.IndexAny(rest, ends); end >= 0 {
		return rest[:end]
	}
	return nil
}

const (
	serverInfo     = `{"name":"reference","version":"1"}`
	echoName       = `{"name":"echo`
	echoRest       = `","description":"Gives back its text.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}`
	oneTool        = `"tools":[` + echoName + echoRest + `]`
	cacheable      = `"resultType":"complete","ttlMs":60000,"cacheScope":"public"`
	modernMeta     = `"_meta":{"io.modelcontextprotocol/serverInfo":` + serverInfo + `}`
	discoverResult = `{` + cacheable + `,"supportedVersions":["` + ModernVersion + `"],"capabilities":{"tools":{}},` + modernMeta + `}`
	initRest       = `","capabilities":{"tools":{}},"serverInfo":` + serverInfo + `}`

	unknownMethod = `{"code":-32601,"message":"method not found"}`
	badCall       = `{"code":-32602,"message":"echo wants a text that begins with a token"}`
	modernOnly    = `{"code":-32022,"message":"unsupported protocol version","data":{"supported":["` +
		ModernVersion + `"],"requested":"` + LegacyVersion + `"}}`
)

// listOf is a list of n tools: echo, echo1, echo2 and so on.
func listOf(n int) string {
	var b strings.Builder
	b.WriteString(`"tools":[` + echoName + echoRest)
	for i := 1; i < n; i++ {
		b.WriteString("," + echoName + strconv.Itoa(i) + echoRest)
	}
	b.WriteString("]")
	return b.String()
}

// appendAnswer appends the response to r in the given era, and returns the HTTP status that the modern revision requires for it.
func appendAnswer(dst []byte, r *request, modern bool) ([]byte, int) {
	result, failure := "", ""
	switch string(r.method) {
	case "tools/call":
		if r.token == nil {
			failure = badCall
			break
		}
		return appendCall(dst, r, modern), 200
	case "tools/list":
		tools := cmp.Or(r.tools, oneTool)
		result = `{` + tools + `}`
		if modern {
			result = `{` + cacheable + `,` + tools + `,` + modernMeta + `}`
		}
	case "server/discover":
		result = discoverResult
		if !modern {
			failure = unknownMethod
		}
	case "initialize":
		result = `{"protocolVersion":"` + r.negotiated() + initRest
		if modern {
			failure = modernOnly
		}
	case "ping":
		result = `{}`
		if modern {
			failure = unknownMethod
		}
	default:
		failure = unknownMethod
	}
	dst = appendHead(dst, r.id)
	if failure != "" {
		dst = append(dst, `"error":`...)
		dst = append(dst, failure...)
		if failure == unknownMethod {
			return append(dst, '}'), 404
		}
		return append(dst, '}'), 400
	}
	dst = append(dst, `"result":`...)
	dst = append(dst, result...)
	return append(dst, '}'), 200
}

func appendCall(dst []byte, r *request, modern bool) []byte {
	dst = appendHead(dst, r.id)
	dst = append(dst, `"result":{`...)
	if modern {
		dst = append(dst, `"resultType":"complete",`...)
	}
	dst = append(dst, `"content":[{"type":"text","text":"`...)
	dst = append(dst, r.token...)
	dst = AppendFiller(dst, r.length-TokenLen)
	return append(dst, `"}]}}`...)
}

func appendHead(dst, id []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	return append(dst, ',')
}
