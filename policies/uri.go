package policies

import (
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// URI is the URI of a resource as rules judge it. Servers differ in what they make of a URI: some compare it as it is, others normalise
// it by RFC 3986 (6.2) or as browsers do (WHATWG URL), decode it, or split it themselves. A rule that denies must hold for whatever a
// server reads, one that allows for nothing but what it says.
type URI struct {
	exact    string   // equal for the spellings that the standards call the same
	whole    string   // equal for all spellings that some server may take for one another
	bare     string   // whole, without a user's name in the authority
	readings []string // whole and bare, and both as a server reads them that ignores port, query, fragment or a last slash
}

// Reasons why a URI is not judged. They complete the sentence "the URI has …".
var (
	errLong      = errors.New("more than 65536 bytes")
	errControl   = errors.New("a control character, as it is or percent-encoded")
	errSpace     = errors.New("white space at an end")
	errEncoding  = errors.New("bytes that are not UTF-8, as they are or percent-encoded")
	errNested    = errors.New("percent-encoding of percent-encoding, too often")
	errDots      = errors.New("a segment \".\" or \"..\", as it is or percent-encoded")
	errUser      = errors.New("an @ behind a backslash, a question mark or a number sign: where its host begins is not certain")
	errHost      = errors.New("a host that is none, or that is written in an unusual way")
	errPort      = errors.New("a port that is no number from 0 to 65535")
	errNoHost    = errors.New("another number of slashes before its host than two")
	errNoScheme  = errors.New("no scheme before its first colon")
	errNotSlash  = errors.New("a path that does not begin with a slash")
	specialPorts = map[string]string{"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21", "file": ""}
)

// ReadURI reads a URI. The error says what makes its reading uncertain; such a URI is refused where rules apply.
func ReadURI(raw []byte) (*URI, error) {
	if err := checkText(string(raw)); err != nil {
		return nil, err
	}
	p := parsing{}
	exact, naked, err := p.normal(string(raw))
	if err != nil {
		return nil, err
	}
	decoded, err := decodedAll(exact)
	if err == nil {
		err = checkDecoded(decoded)
	}
	if err != nil {
		return nil, err
	}
	u := &URI{exact: exact, whole: p.squeezed(decoded), bare: p.bare(naked)}
	u.addReadings(u.whole)
	u.addReadings(u.bare)
	u.addReadings(withoutUser(u.whole))
	if local, ok := withoutHost(decoded); ok {
		u.addReadings(p.squeezed(local))
	}
	if strings.Contains(decoded, "{") {
		u.addReadings(p.squeezed(operators.Replace(decoded)))
	}
	if decoded, err = decodedAll(string(raw)); err != nil {
		return nil, err
	}
	if again, naked, err := p.normal(decoded); err == nil { // a server may decode first and split then
		u.addReadings(p.wide(again))
		u.addReadings(p.bare(naked))
		if local, ok := withoutHost(again); ok {
			u.addReadings(p.wide(local))
		}
	}
	return u, nil
}

// operators moves the character that an expression of a template always begins with (RFC 6570 3.2) before the expression: a template
// is judged as what it expands to.
var operators = strings.NewReplacer("{/", "/{", "{?", "?{", "{#", "#{", "{.", ".{", "{;", ";{", "{&", "&{")

// withoutHost leaves the host out of a file's URI in its normal form, as servers do that open its path whatever the host is;
// false if it has none.
func withoutHost(form string) (string, bool) {
	rest, ok := strings.CutPrefix(form, "file://")
	host, path := cutAny(rest, "/?#")
	return "file://" + path, ok && host != ""
}

// checkText refuses what parsers strip or replace before they read a URI.
func checkText(text string) error {
	if len(text) > maxJudged {
		return errLong
	}
	if !utf8.ValidString(text) {
		return errEncoding
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		return errControl
	}
	if strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || invisible(r) }) != text {
		return errSpace
	}
	return nil
}

// addReadings adds a form and what is left of it without fragment, query and last slashes.
func (u *URI) addReadings(form string) {
	noFragment, _, _ := strings.Cut(form, "#")
	noQuery, _, _ := strings.Cut(noFragment, "?")
	for _, one := range [...]string{form, noFragment, noQuery} {
		for _, reading := range [...]string{one, trimmed(one, "/.")} {
			if !slices.Contains(u.readings, reading) {
				u.readings = append(u.readings, reading)
			}
		}
	}
}

// trimmed returns text without some characters and spaces at its end.
func trimmed(text, characters string) string {
	return strings.TrimRightFunc(text, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(characters, r) })
}

// maxNested is how often percent-encoding is decoded.
const maxNested = 8

// wide returns the form that is equal for all spellings that some server may take for one another: everything is decoded and in one
// case, slashes are not counted, and what follows a segment that a file system ignores is left out.
func (p parsing) wide(form string) string {
	text, _ := decodedAll(form) // of what cannot be decoded, the pattern of a list at most
	return p.squeezed(text)
}

// bare returns the form of wide without a user.
func (p parsing) bare(form string) string { return withoutUser(p.wide(form)) }

// checkDecoded refuses a decoded URI whose path or host servers may read differently.
func checkDecoded(text string) error {
	if hasDots(strings.Join(strings.Fields(text), "")) {
		return errDots
	}
	if _, after, ok := strings.Cut(text, "://"); ok {
		authority, _ := cutAny(after, "/")
		if user, _, ok := strings.Cut(authority, "@"); ok && strings.ContainsAny(user, "\\?#") {
			return errUser
		}
	}
	return nil
}

// decodedAll decodes percent-encoding until there is none.
func decodedAll(text string) (string, error) {
	for range maxNested {
		next := folded(text)
		switch {
		case !utf8.ValidString(next):
			return next, errEncoding
		case strings.ContainsFunc(next, unicode.IsControl):
			return next, errControl
		case next == text:
			return text, nil
		}
		text = next
	}
	return text, errNested
}

// folded decodes percent-encoding, and puts the characters into one case and form once there is none: a digit of an encoding may
// combine with what follows it. Controls stay, to be found.
func folded(text string) string {
	decoded := percentDecoded(text)
	for n := 1; n < maxNested && decoded != text; n++ {
		text, decoded = decoded, percentDecoded(decoded)
	}
	if !utf8.ValidString(decoded) || strings.ContainsFunc(decoded, unicode.IsControl) {
		return decoded
	}
	return string(foldWide(norm.NFKC.Bytes([]byte(decoded)), nil))
}

// squeezed leaves out of a decoded URI what some server does not look at: how many slashes there are, spaces around segments,
// dots behind them, and separators of nothing.
func (p parsing) squeezed(text string) string {
	scheme, rest, ok := strings.Cut(strings.ReplaceAll(text, "\\", "/"), ":")
	if !ok {
		return scheme
	}
	if _, special := specialPorts[scheme]; special {
		rest = readableHost(rest)
	}
	if rest = strings.Replace(rest, "?#", "#", 1); !p.partial { // an empty query, an empty fragment
		rest = strings.TrimRight(rest, "?#")
	}
	parts := strings.Split(rest, "/")
	kept := parts[:0]
	for i, part := range parts {
		last := i == len(parts)-1
		if !last || !p.partial {
			part = trimmed(strings.TrimSpace(part), ".")
		}
		if part != "" || last && len(kept) > 0 {
			kept = append(kept, part)
		}
	}
	return scheme + ":" + strings.Join(kept, "/")
}

// readableHost turns a host in punycode behind two slashes into its characters, as rules may be written.
func readableHost(rest string) string {
	after, ok := strings.CutPrefix(rest, "//")
	if !ok || !strings.Contains(after, "xn--") {
		return rest
	}
	authority, path := cutAny(after, "/?#")
	if name, err := hostNames.ToUnicode(authority); err == nil {
		authority = string(foldWide([]byte(name), nil))
	}
	return "//" + authority + path
}

// withoutUser leaves a user out of a form of wide.
func withoutUser(form string) string {
	scheme, rest, ok := strings.Cut(form, ":")
	if !ok {
		return form
	}
	authority, path := cutAny(rest, "/?#")
	return scheme + ":" + authority[strings.LastIndexByte(authority, '@')+1:] + path
}

// hasDots reports whether a segment "." or ".." stands beside a slash. A segment ends also where queries and parameters have a separator.
func hasDots(text string) bool {
	const slashes, ends = "/\\", "/\\?#&=;,:@"
	for i := 0; i < len(text); i++ {
		if text[i] != '.' || i == 0 || strings.IndexByte(ends, text[i-1]) < 0 {
			continue
		}
		end := i + 1
		if end < len(text) && text[end] == '.' {
			end++
		}
		before := strings.IndexByte(slashes, text[i-1]) >= 0
		if end == len(text) && before || end < len(text) && strings.IndexByte(ends, text[end]) >= 0 && (before || strings.IndexByte(slashes, text[end]) >= 0) {
			return true
		}
	}
	return false
}
