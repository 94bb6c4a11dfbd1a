package drive

import (
	"bytes"
	"strconv"

	"dragoman/proxy/wire"
)

// initializeBody is initialize, with Number for its id.
func initializeBody(revision string) string {
	return `{"jsonrpc":"2.0","id":` + Number + `,"method":"initialize","params":{"protocolVersion":"` + revision +
		`","capabilities":{},"clientInfo":{"name":"dragoman-bench","version":"1"}}}`
}

// initializeID is the id of initialize. No call has it: in a session no id may come again, and a server may still be busy with this one when the
// first call comes.
const initializeID = "9999999999"

const initializedBody = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// agreed is the revision that initialize was answered with.
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

// idOf is the id of a message as it is written, and whether it is a response. The id of ours, ten digits, is taken where it first stands,
// if the message begins as most do; what it answers is for the judge to say.
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
