package drive

import (
	"bytes"
	"strconv"

	"dragoman/proxy/wire"
)

// initializeBody is initialize with Number as its id.
func initializeBody(revision string) string {
	return `{"jsonrpc":"2.0","id":` + Number + `,"method":"initialize","params":{"protocolVersion":"` + revision +
		`","capabilities":{},"clientInfo":{"name":"dragoman-bench","version":"1"}}}`
}

// initializeID is the id of initialize. No call has it: an id must be unique in a session, and a server may still process initialize when
// the first call arrives.
const initializeID = "9999999999"

const initializedBody = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// agreed returns the revision of the answer to initialize.
func agreed(answer []byte) (string, error) {
	m, err := wire.Scan(answer)
	if err != nil || m.Kind != wire.Result {
		return "", faultf(kindHandshake, "initialize: no result: %s", quote(answer))
	}
	version := wire.Get(m.Raw, m.Result, "protocolVersion").Text(m.Raw)
	if len(version) == 0 || bytes.ContainsAny(version, "\r\n") {
		return "", faultf(kindHandshake, "initialize: no protocol version: %s", quote(answer))
	}
	return string(version), nil
}

// idOf returns the raw id of a message, and whether the message is a response. For the usual beginning of a message it takes the first id
// of ten digits without decoding: the judge checks the answer.
func idOf(message []byte) (id []byte, response bool) {
	const usual = `{"jsonrpc":"2.0","id":`
	if len(message) > len(usual)+numberLen+8 && string(message[:len(usual)]) == usual {
		rest := message[len(usual):]
		if string(rest[numberLen:numberLen+3]) == `,"r` || string(rest[numberLen:numberLen+3]) == `,"e` {
			return rest[:numberLen], true
		}
	}
	m, err := wire.Scan(message)
	return m.Of(m.ID), err == nil && m.IsResponse()
}

func digitsOf(n int) string { return strconv.Itoa(n) }
