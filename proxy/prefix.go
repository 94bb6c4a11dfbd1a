package proxy

import "strings"

// maxPrefix is the length of the longest path prefix, in bytes.
const maxPrefix = 512

// ValidPrefix reports whether text is a path that may precede the paths of a listener: it begins with a slash and does not end with one,
// has no empty segment, none of dots, and no characters but those that RFC 3986 calls unreserved. So it cannot lead to another host, end
// the path, or begin another line.
func ValidPrefix(text string) bool {
	if len(text) > maxPrefix || !strings.HasPrefix(text, "/") {
		return false
	}
	for segment := range strings.SplitSeq(text[1:], "/") {
		if segment == "" || segment == "." || segment == ".." || strings.ContainsFunc(segment, reserved) {
			return false
		}
	}
	return true
}

func reserved(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._~", r))
}
