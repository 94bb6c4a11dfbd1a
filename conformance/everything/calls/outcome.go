package calls

import (
	"dragoman/conformance/everything/content"
	"dragoman/proxy"
)

// Outcome is the result of a tool or a prompt. That of a call that was stopped is not used.
type Outcome struct {
	kind       string       // resultType
	members    string       // the result's other members: raw JSON without the braces
	structured string       // structuredContent, raw JSON; empty if none
	refusal    *proxy.Error // an error response instead of a result
}

// Says returns a tool's result with a text.
func Says(text string) Outcome { return Shows(content.Text(text)) }

// Shows returns a tool's result with content blocks.
func Shows(blocks ...string) Outcome { return Gives(content.Of(blocks...)) }

// Fails returns a tool's result that reports an error.
func Fails(text string) Outcome { return Gives(content.Of(content.Text(text)) + `,"isError":true`) }

// Gives returns a complete result with the given members.
func Gives(members string) Outcome {
	return Outcome{kind: content.Complete, members: members}
}

// refuses returns an error response.
func refuses(e *proxy.Error) Outcome { return Outcome{refusal: e} }

// Structured returns a JSON value as structuredContent, and as text for clients without it (SEP-2106).
func Structured(json string) Outcome {
	out := Shows(content.Text(json))
	out.structured = json
	return out
}
