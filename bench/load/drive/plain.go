package drive

import (
	"bytes"

	"github.com/goccy/go-json"
)

// Plain is a face that has no protocol but HTTP: Params is posted to the plan's path as it is, and any JSON value with status 200 answers it.
// With a Text the answer must be that text as a JSON string, which is how bridges from MCP to OpenAPI answer for a tool with one text.
const Plain Face = "plain"

// speaksMCP tells whether messages are those of MCP.
func (f Face) speaksMCP() bool { return f != REST && f != Plain }

// value is what a good answer of Plain brings.
func (j *judge) value(message []byte) ([]byte, int, error) {
	value := bytes.TrimSpace(message)
	if !json.Valid(value) {
		return nil, 0, faultf(kindMalformed, "no JSON: %s", quote(message))
	}
	return value, len(message), nil
}

// text is the text of a result that has nothing but one.
func (j *judge) text(result []byte) string {
	if !j.plain {
		return onlyText(result)
	}
	var text string
	if json.Unmarshal(result, &text) != nil {
		return ""
	}
	return text
}
