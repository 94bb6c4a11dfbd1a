package policies

import (
	"net/netip"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// parsing normalises URIs, and the beginnings of URIs that patterns are.
type parsing struct {
	partial bool // the text is the beginning of URIs: it may end anywhere
}

// normal returns the form that is equal for all spellings that RFC 3986 or the WHATWG call the same, in ASCII, and that form without
// what names no host: the user and, where the scheme has no default for it, the port.
func (p parsing) normal(text string) (exact, naked string, err error) {
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok || !isScheme(scheme) {
		if exact, err = escaped(text); err == nil && !p.partial {
			err = errNoScheme
		}
		if !ok { // a pattern that ends in the scheme
			exact = strings.ToLower(exact)
		}
		return exact, exact, err
	}
	scheme = strings.ToLower(scheme)
	if _, special := specialPorts[scheme]; special {
		return p.special(scheme, rest)
	}
	after, hierarchical := strings.CutPrefix(rest, "//")
	if !hierarchical {
		rest, err = escaped(rest)
		return scheme + ":" + rest, scheme + ":" + rest, err
	}
	authority, path := cutAny(after, "/?#")
	user, host := cutUser(authority)
	if host, err = escaped(host); err != nil {
		return "", "", err
	}
	port := ""
	if path != "" || !p.partial {
		host, port = cutPort(host)
	}
	if address, ok := normalAddress(host); ok {
		host = address
	}
	if path, err = escaped(path); err != nil {
		return "", "", err
	}
	if port != "" {
		port = ":" + port
	}
	return scheme + "://" + user + host + port + path, scheme + "://" + host + path, nil
}

// special normalises a URI of a scheme for which browsers have rules of their own.
func (p parsing) special(scheme, rest string) (exact, naked string, err error) {
	head, tail := cutAny(rest, "?#")
	head = strings.ReplaceAll(head, "\\", "/")
	if tail, err = escaped(tail); err != nil {
		return "", "", err
	}
	if p.partial && tail == "" && strings.Trim(head, "/") == "" { // a pattern that ends before the host
		return scheme + ":" + head, scheme + ":" + head, nil
	}
	if scheme == "file" {
		exact, err = p.file(head)
		return exact + tail, exact + tail, err
	}
	after := strings.TrimLeft(head, "/")
	if len(head)-len(after) != 2 {
		return "", "", errNoHost
	}
	authority, path := cutAny(after, "/")
	if path, err = escaped(path); err != nil {
		return "", "", err
	}
	if p.partial && path == "" && tail == "" {
		host, err := escaped(authority)
		return scheme + "://" + strings.ToLower(host), scheme + "://" + strings.ToLower(host), err
	}
	user, host := cutUser(authority)
	host, port := cutPort(host)
	if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || strconv.FormatUint(n, 10) != port) {
		return "", "", errPort
	}
	if host, err = normalHost(host); err != nil {
		return "", "", err
	}
	if port == specialPorts[scheme] {
		port = ""
	}
	if port != "" {
		port = ":" + port
	}
	if path == "" {
		path = "/"
	}
	return scheme + "://" + user + host + port + path + tail, scheme + "://" + host + port + path + tail, nil
}

// file normalises what follows "file:", up to the query: a host that may be empty, and a path.
func (p parsing) file(head string) (string, error) {
	if !strings.HasPrefix(head, "/") {
		return "", errNotSlash
	}
	host, path := "", head
	if after, ok := strings.CutPrefix(head, "//"); ok {
		host, path = cutAny(after, "/")
	}
	if isDrive(host) {
		host, path = "", "/"+host+path
	}
	if host != "" {
		name, err := normalHost(host)
		switch {
		case err == nil:
			host = name
		case p.partial:
			host = strings.ToLower(host)
		default:
			return "", err
		}
		if host == "localhost" {
			host = ""
		}
	}
	if path == "" && !p.partial {
		path = "/"
	}
	if len(path) >= 3 && isDrive(path[1:3]) && (len(path) == 3 || path[3] == '/') {
		path = path[:2] + ":" + path[3:]
	}
	path, err := escaped(path)
	return "file://" + host + path, err
}

// isDrive reports whether text is the letter of a Windows drive with its colon, or the bar that stands for it.
func isDrive(text string) bool {
	return len(text) == 2 && text[0]|0x20 >= 'a' && text[0]|0x20 <= 'z' && (text[1] == ':' || text[1] == '|')
}

// hostNames maps the names of hosts as browsers do (UTS 46, not transitional).
var hostNames = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false), idna.CheckHyphens(false))

// normalHost returns the one form of a host. It refuses the unusual ones of addresses, such as 0x7f.1 and 2130706433.
func normalHost(host string) (string, error) {
	if strings.HasPrefix(host, "[") {
		if address, ok := normalAddress(host); ok {
			return address, nil
		}
		return "", errHost
	}
	name, err := hostNames.ToASCII(percentDecoded(host))
	if err != nil || name == "" || strings.ContainsAny(name, " #/:<>?@[\\]^|%\"`{}") || strings.ContainsFunc(name, unicode.IsControl) {
		return "", errHost
	}
	if again, err := hostNames.ToASCII(name); err != nil || again != name { // punycode that is not read back
		return "", errHost
	}
	last := name[strings.LastIndexByte(strings.TrimSuffix(name, "."), '.')+1:]
	last = strings.TrimSuffix(last, ".")
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") && strings.Trim(last[2:], "0123456789abcdef") == "" {
		if ip, err := netip.ParseAddr(name); err != nil || ip.String() != name {
			return "", errHost
		}
	}
	return name, nil
}

// normalAddress returns the one form of an IPv6 address in brackets.
func normalAddress(host string) (string, bool) {
	address, ok := strings.CutPrefix(host, "[")
	inside, closed := strings.CutSuffix(address, "]")
	ip, err := netip.ParseAddr(inside)
	if !ok || !closed || err != nil || !ip.Is6() || ip.Zone() != "" {
		return "", false
	}
	return "[" + ip.String() + "]", true
}

func isScheme(text string) bool {
	for i, c := range []byte(text) {
		if letter := c|0x20 >= 'a' && c|0x20 <= 'z'; !letter && (i == 0 || (c < '0' || c > '9') && c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return text != ""
}

// cutAny cuts text before the first of some characters.
func cutAny(text, chars string) (before, from string) {
	if i := strings.IndexAny(text, chars); i >= 0 {
		return text[:i], text[i:]
	}
	return text, ""
}

// cutUser cuts an authority behind its last @. The user has the one form that browsers give it.
func cutUser(authority string) (user, host string) {
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		return "", authority
	}
	name, password, _ := strings.Cut(authority[:at], ":")
	if password != "" {
		password = ":" + escapedUser(password)
	}
	if user = escapedUser(name) + password; user != "" {
		user += "@"
	}
	return user, authority[at+1:]
}

// cutPort cuts the port from a host. It has no leading zeros, and is empty if what stands there is none.
func cutPort(host string) (name, port string) {
	i := strings.LastIndexByte(host, ':')
	if i < 0 || strings.Trim(host[i+1:], "0123456789") != "" {
		return host, ""
	}
	if strings.IndexByte(host, ':') < i && (host[0] != '[' || host[i-1] != ']') { // the colon of an address, or no port at all
		return host, ""
	}
	if port = strings.TrimLeft(host[i+1:], "0"); port == "" && i+1 < len(host) {
		port = "0"
	}
	return host[:i], port
}

const (
	hexDigits  = "0123456789ABCDEF"
	unreserved = "-._~'" // besides letters and digits; browsers escape the apostrophe in queries only
	reserved   = ":/?#[]@!$&()*+,;=\\"
)

// escaped returns text with percent-encoding where it must be and nowhere else, in capitals: unreserved characters are decoded,
// reserved ones are left as they are, all others are encoded, also a percent sign that begins no encoding.
func escaped(text string) (string, error) { return escapedBut(text, reserved) }

// escapedUser is escaped for a user or a password, in which no reserved character may stand.
func escapedUser(text string) string {
	user, _ := escapedBut(text, "") // the whole text is examined elsewhere
	return user
}

func escapedBut(text, literal string) (string, error) {
	var b strings.Builder
	var err error
	for i := 0; i < len(text); i++ {
		c, encoded := text[i], false
		if n, ok := percentByte(text[i:]); ok {
			if c, encoded = n, true; c < ' ' || c == 0x7f {
				err = errControl
			}
			i += 2
		}
		switch {
		case isAlphanumeric(c), strings.IndexByte(unreserved, c) >= 0, !encoded && strings.IndexByte(literal, c) >= 0:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
	return b.String(), err
}

func isAlphanumeric(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
}

// percentByte returns the byte that a text begins with in percent-encoding.
func percentByte(text string) (byte, bool) {
	if len(text) < 3 || text[0] != '%' {
		return 0, false
	}
	n, err := strconv.ParseUint(text[1:3], 16, 8)
	return byte(n), err == nil
}

// percentDecoded decodes all percent-encoding once, also that of Microsoft's servers with a u and four digits.
func percentDecoded(text string) string {
	if strings.IndexByte(text, '%') < 0 {
		return text
	}
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if c, ok := percentByte(text[i:]); ok {
			b = append(b, c)
			i += 2
			continue
		}
		if len(text)-i >= 6 && text[i] == '%' && text[i+1]|0x20 == 'u' {
			if n, err := strconv.ParseUint(text[i+2:i+6], 16, 16); err == nil {
				b = utf8.AppendRune(b, rune(n))
				i += 5
				continue
			}
		}
		b = append(b, text[i])
	}
	return string(b)
}
