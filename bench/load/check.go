package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"dragoman/adapters/eventstream"
)

const (
	decodeEvery = 256 // one answer in so many is decoded in full
	quoteLimit  = 200 // of a wrong answer in an error
)

// checker judges the answers of one connection. Every one is checked for its
// HTTP status, id and whole text by looking at its bytes; one in decodeEvery is
// parsed as well, so that answers which only look right are found too.
type checker struct {
	splitter eventstream.Splitter
	reader   bytes.Reader
	seen     uint64
	last     []byte
}

// message gives what a response brings: its body, or the last message of its event stream.
func (c *checker) message(status int, contentType, body []byte) ([]byte, error) {
	if status != 200 {
		return nil, fmt.Errorf("load: HTTP status %d: %.*q", status, quoteLimit, body)
	}
	switch media, _, _ := bytes.Cut(contentType, []byte(";")); string(media) {
	case "application/json":
		return body, nil
	case "text/event-stream":
		return c.lastEvent(body)
	}
	return nil, fmt.Errorf("load: content type %q", contentType)
}

// check returns an error if the message is not the answer to t.
func (c *checker) check(t *template, message []byte) error {
	if !hasID(message, t.wantID()) {
		return fmt.Errorf("load: the id is not %s: %.*q", t.wantID(), quoteLimit, message)
	}
	if !hasText(message, t.text) {
		return fmt.Errorf("load: the text is not that of call %s: %.*q", t.wantID(), quoteLimit, message)
	}
	if c.seen++; c.seen%decodeEvery == 1 {
		return decode(message, t)
	}
	return nil
}

// lastEvent gives the last message of a stream: before it there may be
// notifications, behind it nothing.
func (c *checker) lastEvent(body []byte) ([]byte, error) {
	c.reader.Reset(body)
	c.splitter.Reset(len(body) + 1)
	c.last = c.last[:0]
	for {
		event, err := c.splitter.Next(&c.reader)
		if err == io.EOF && len(c.last) > 0 {
			return c.last, nil
		}
		if err != nil {
			return nil, fmt.Errorf("load: incomplete event stream: %w", err)
		}
		if event.IsMessage() && len(event.Data) > 0 {
			c.last = append(c.last[:0], event.Data...)
		}
	}
}

func hasID(message, want []byte) bool {
	_, rest, ok := bytes.Cut(message, []byte(`"id":`))
	return ok && bytes.HasPrefix(rest, want) && len(rest) > len(want) &&
		(rest[len(want)] == ',' || rest[len(want)] == '}')
}

func hasText(message, want []byte) bool {
	_, rest, ok := bytes.Cut(message, []byte(`"text":"`))
	return ok && bytes.HasPrefix(rest, want) && len(rest) > len(want) && rest[len(want)] == '"'
}

// decode reads an answer as a client would.
func decode(message []byte, t *template) error {
	var answer struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   json.RawMessage `json:"error"`
		Result  struct {
			IsError bool `json:"isError"`
			Content []struct {
				Type string `json:"type"`
				Text string `json:"text"`
			} `json:"content"`
		} `json:"result"`
	}
	if err := json.Unmarshal(message, &answer); err != nil {
		return fmt.Errorf("load: malformed answer: %w", err)
	}
	content := answer.Result.Content
	switch {
	case answer.Version != "2.0", answer.Error != nil, answer.Result.IsError,
		!bytes.Equal(answer.ID, t.wantID()), len(content) != 1:
		return fmt.Errorf("load: not the answer to call %s: %.*q", t.wantID(), quoteLimit, message)
	case content[0].Type != "text" || content[0].Text != string(t.text):
		return errors.New("load: the decoded text is another one")
	}
	return nil
}
