package transport

import (
	"strings"

	"dragoman/proxy/wire"
)

// HideJSON returns raw, a JSON value, with each string and number as hide returns its text: strings without their escapes, names of
// members included. It returns raw itself if hide changes none. A number of which something is hidden becomes a string.
func HideJSON(raw []byte, hide func(text string) string) []byte {
	var out []byte
	done := 0 // of raw, in out
	for at := 0; at < len(raw); {
		end, text := token(raw, at)
		if end == at { // white space, punctuation, or a literal
			at++
			continue
		}
		if hidden := hide(text); hidden != text {
			out = wire.AppendText(append(out, raw[done:at]...), hidden)
			done = end
		}
		at = end
	}
	if out == nil {
		return raw
	}
	return append(out, raw[done:]...)
}

// token returns the end of the string or number that begins at a place of raw, and its text; that place if none does.
func token(raw []byte, at int) (end int, text string) {
	const number = "+-.0123456789eE"
	switch c := raw[at]; {
	case c == '"':
		for end = at + 1; end < len(raw) && raw[end] != '"'; end++ {
			if raw[end] == '\\' {
				end++
			}
		}
		end = min(end+1, len(raw))
		if text = string(raw[at:end]); end-at >= 2 && raw[end-1] == '"' {
			text = string(wire.Whole(raw[at:end]).Text(raw[at:end]))
		}
	case c == '-' || c >= '0' && c <= '9':
		for end = at; end < len(raw) && strings.IndexByte(number, raw[end]) >= 0; end++ {
		}
		text = string(raw[at:end])
	default:
		end = at
	}
	return end, text
}
