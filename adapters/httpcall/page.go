package httpcall

import (
	"bytes"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode"

	"dragoman/adapters/httpd/http1"
)

// maxPage bounds what is searched of a body that may be a page.
const maxPage = 4096

// isPage reports whether a body looks like an HTML page.
func isPage(body []byte) bool {
	begin := bytes.ToLower(bytes.TrimSpace(body[:min(len(body), maxPage)]))
	return bytes.HasPrefix(begin, []byte("<!doctype html")) || bytes.HasPrefix(begin, []byte("<html"))
}

var pageTitle = regexp.MustCompile(`(?is)<title[^>]*>([^<]*)`)

// titled returns the title of a page, as the rest of a phrase; empty if it has none.
func titled(page []byte) string {
	m := pageTitle.FindSubmatch(page[:min(len(page), maxPage)])
	if m == nil || len(bytes.TrimSpace(m[1])) == 0 {
		return ""
	}
	return fmt.Sprintf(" with the title %q", Printable(m[1]))
}

// Redirect returns where a redirect leads, printable and without user, query and fragment, which may hold secrets; empty if it says
// nowhere.
func Redirect(h *http1.Fields) string {
	to, err := url.Parse(string(h.Peek("Location")))
	if err != nil {
		return ""
	}
	to.User, to.RawQuery, to.ForceQuery, to.Fragment, to.RawFragment = nil, "", false, "", ""
	return Printable([]byte(to.String()))
}

// Printable returns the beginning of a server's text, at most 200 bytes, in one line for an error message.
func Printable(text []byte) string {
	s := strings.ToValidUTF8(string(text[:min(len(text), 300)]), "")
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || unicode.IsSpace(r) }), " ")
	return strings.ToValidUTF8(s[:min(len(s), 200)], "")
}
