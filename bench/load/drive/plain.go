package drive

import (
	"bytes"

	"github.com/goccy/go-json"
)

// value returns the value of a good answer of Plain.
func (j *judge) value(message []byte) ([]byte, int, error) {
	value := bytes.TrimSpace(message)
	if !json.Valid(value) {
		return nil, 0, faultf(kindMalformed, "no JSON: %s", quote(message))
	}
	return value, len(message), nil
}

// text returns the text of a result that consists of one text. Of Plain it is any other value's compact JSON, too.
func (j *judge) text(result []byte) string {
	if !j.plain {
		return onlyText(result)
	}
	var text string
	if json.Unmarshal(result, &text) == nil {
		return text
	}
	var compact bytes.Buffer
	if json.Compact(&compact, result) != nil {
		return ""
	}
	return compact.String()
}
