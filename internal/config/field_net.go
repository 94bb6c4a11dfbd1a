package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-json"

	"dragoman/adapters/rules"
)

// Bounds of ports: the privileged ones are left to whoever maps them.
const (
	leastPort   = 1024
	mostPort    = 65535
	portAllowed = "1024 to 65535, or 0 for any free port"
	Off         = "off"
)

var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*\.?$`)

// validHost accepts an IP address (an IPv6 one with or without zone) or a host name.
func validHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return len(host) <= 253 && hostName.MatchString(host)
}

// hostField is a bind address.
type hostField struct{ at *string }

func (f hostField) Set(v Literal) error {
	text, ok := v.plainText()
	if !ok {
		return problemf("must be text, not %s; quote it", v.show())
	}
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		text = text[1 : len(text)-1]
	}
	if !validHost(text) {
		return problemf("%s is not an IP address or a host name", v.show())
	}
	*f.at = text
	return nil
}

func (f hostField) text() string    { return Quote(*f.at) }
func (f hostField) Allowed() string { return "an IP address or a host name, without a port" }

// splitListen reads HOST:PORT; a missing host means all interfaces.
func splitListen(v Literal) (host string, port int, err error) {
	text, ok := v.plainText()
	if !ok {
		return "", 0, problemf("must be HOST:PORT, not %s", v.show())
	}
	host, portText, err := net.SplitHostPort(text)
	if err != nil {
		return "", 0, problemf("%s is not HOST:PORT", v.show())
	}
	if host == "" {
		host = "0.0.0.0" // as everywhere else; then the check for loopback sees it
	}
	if !validHost(host) {
		return "", 0, problemf("%s: the host is neither an IP address nor a host name", v.show())
	}
	port, err = strconv.Atoi(portText)
	if err != nil || port != 0 && (port < leastPort || port > mostPort) {
		return "", 0, &problem{what: fmt.Sprintf("%s: the port is out of range", v.show()), fix: "choose a port of " + portAllowed}
	}
	return host, port, nil
}

// listenField is HOST:PORT in two places.
type listenField struct {
	host *string
	port *int
}

func (f listenField) Set(v Literal) error {
	host, port, err := splitListen(v)
	if err != nil {
		return err
	}
	*f.host, *f.port = host, port
	return nil
}

func (f listenField) text() string { return Quote(net.JoinHostPort(*f.host, strconv.Itoa(*f.port))) }
func (f listenField) Allowed() string {
	return "HOST:PORT such as 127.0.0.1:8080, port " + portAllowed
}

// adminField is HOST:PORT or "off".
type adminField struct{ at *string }

func (f adminField) Set(v Literal) error {
	if text, ok := v.plainText(); ok && text == Off {
		*f.at = Off
		return nil
	}
	host, port, err := splitListen(v)
	if err != nil {
		return err
	}
	*f.at = net.JoinHostPort(host, strconv.Itoa(port))
	return nil
}

func (f adminField) text() string    { return Quote(*f.at) }
func (f adminField) Allowed() string { return "HOST:PORT such as 127.0.0.1:9090, or off" }

// listField is a list of text. In the environment it is a JSON array, or
// separated by commas where commas is true.
type listField struct {
	at     *[]string
	check  func(item string) error
	what   string
	least  int
	most   int
	commas bool
	words  []string // all entries there can be, if they are few: for completion
}

func (f listField) Set(v Literal) error {
	if v.Kind == wordLiteral {
		var err error
		if v, err = f.split(v.Text); err != nil {
			return err
		}
	}
	if v.Kind != listLiteral {
		return problemf("must be a list, not %s", v.Kind)
	}
	v.items = f.parts(v.items)
	if len(v.items) < f.least {
		return problemf("is empty")
	}
	if len(v.items) > f.most {
		return problemf("has %d entries; at most %d are allowed", len(v.items), f.most)
	}
	list := make([]string, 0, len(v.items))
	for i, item := range v.items {
		text, ok := item.scalarText()
		if !ok {
			return problemf("entry %d must be text, not %s", i+1, item.Kind)
		}
		if err := f.check(text); err != nil {
			return fmt.Errorf("entry %d: %w", i+1, err)
		}
		list = append(list, text)
	}
	*f.at = list
	return nil
}

// parts divides the values of a flag, of which each may be a list again.
func (f listField) parts(items []Literal) []Literal {
	if !f.commas || !slices.ContainsFunc(items, func(v Literal) bool { return v.Kind == wordLiteral }) {
		return items
	}
	var all []Literal
	for _, item := range items {
		if item.Kind != wordLiteral {
			all = append(all, item)
			continue
		}
		for part := range strings.SplitSeq(item.Text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				all = append(all, Literal{Kind: QuotedLiteral, Text: part})
			}
		}
	}
	return all
}

func (f listField) split(text string) (Literal, error) {
	list := Literal{Kind: listLiteral}
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		var items []string
		if err := json.Unmarshal([]byte(text), &items); err != nil {
			return list, problemf("is not a JSON array of strings")
		}
		for _, item := range items {
			list.items = append(list.items, Literal{Kind: QuotedLiteral, Text: item})
		}
		return list, nil
	}
	if !f.commas {
		return list, &problem{what: "must be a JSON array of strings: commands are never split like a shell does", fix: `write ["COMMAND", "ARGUMENT"]`}
	}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list.items = append(list.items, Literal{Kind: QuotedLiteral, Text: item})
		}
	}
	return list, nil
}

func (f listField) text() string {
	items := make([]string, 0, len(*f.at))
	for _, item := range *f.at {
		items = append(items, Quote(item))
	}
	return "[" + strings.Join(items, ", ") + "]"
}

func (f listField) Allowed() string { return f.what }

// checkHostEntry accepts host or host:port, as a Host header has it.
func checkHostEntry(item string) error {
	host := item
	if h, port, err := net.SplitHostPort(item); err == nil {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > mostPort {
			return problemf("%q has no valid port", Shorten(item))
		}
		host = h
	}
	if !validHost(strings.Trim(host, "[]")) {
		return problemf("%q is neither a host nor host:port", Shorten(item))
	}
	return nil
}

// checkOrigin accepts scheme://host[:port] as browsers send it (RFC 6454 §6.1).
// "*" is not an origin: it would undo the defence against DNS rebinding.
func checkOrigin(item string) error {
	u, err := url.Parse(item)
	if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return problemf("%q is not an origin", Shorten(item))
	}
	return nil
}

// Network reads an address, or a network in CIDR notation.
func Network(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err == nil && p.Masked() != p {
		return p, fmt.Errorf("the network of %s is %s", text, p.Masked())
	}
	return p, err
}

func checkNetwork(item string) error {
	if _, err := Network(item); err != nil {
		return problemf("%q is neither an address nor a network", Shorten(item))
	}
	return nil
}

// checkEra accepts modern, legacy and every revision that is spoken.
func checkEra(item string) error {
	if _, err := rules.Allow([]string{item}); err != nil {
		if near := Nearest(item, append(rules.Versions(), "modern", "legacy")); near != "" {
			return problemf("%q is not known; did you mean %q?", Shorten(item), near)
		}
		return problemf("%q is not known", Shorten(item))
	}
	return nil
}

// checkArgument accepts what execve can carry.
func checkArgument(item string) error {
	if strings.ContainsRune(item, 0) {
		return problemf("contains a NUL byte")
	}
	return nil
}

// urlField is the address of an upstream.
type urlField struct{ at *string }

func (f urlField) Set(v Literal) error {
	text, ok := v.plainText()
	if !ok {
		return problemf("must be text, not %s", v.Kind)
	}
	if path, ok := strings.CutPrefix(text, UnixScheme); ok {
		return f.unix(text, path)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || HasControl(text):
		return problemf("is not a URL") // not repeated: a password may be in it
	case u.Scheme == "tcp":
		return f.tcp(text, u)
	case u.Scheme != "http" && u.Scheme != "https":
		return problemf("has the scheme %q; only http, https, unix and tcp are spoken", Shorten(u.Scheme))
	case u.User != nil:
		return &problem{what: "contains user information", fix: `put the credentials into headers: Authorization = "env:NAME"`}
	case u.Hostname() == "":
		return problemf("has no host")
	case u.Fragment != "":
		return &problem{what: "has a fragment, which is never sent", fix: "remove the # and what follows"}
	}
	*f.at = text
	return nil
}

// maxSocketPath is what fits into an address (unix(7)); some systems have less.
const maxSocketPath = 107

func (f urlField) unix(text, path string) error {
	path = socketPath(path)
	switch {
	case HasControl(path):
		return problemf("is not the path of a socket")
	case !strings.HasPrefix(path, "/"):
		return &problem{what: "is not followed by an absolute path", fix: `write "unix:/path/to.sock"`}
	case len(path) > maxSocketPath:
		return &problem{what: fmt.Sprintf("has a path of %d bytes; an address holds %d", len(path), maxSocketPath), fix: "put the socket into a directory with a shorter name"}
	}
	*f.at = text
	return nil
}

// socketPath takes the empty authority off unix:///path.
func socketPath(path string) string {
	if rest, ok := strings.CutPrefix(path, "//"); ok {
		return rest
	}
	return path
}

func (f urlField) tcp(text string, u *url.URL) error {
	port, err := strconv.Atoi(u.Port())
	switch {
	case u.User != nil:
		return &problem{what: "contains user information, which lines over TCP have no place for", fix: `write "tcp://HOST:PORT"`}
	case u.Hostname() == "" || !validHost(u.Hostname()):
		return &problem{what: "has no host", fix: `write "tcp://HOST:PORT"`}
	case err != nil || port < 1 || port > mostPort:
		return &problem{what: "has no port of 1 to 65535", fix: `write "tcp://HOST:PORT"`}
	case u.Path != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return &problem{what: "has something after the port, which lines over TCP have no place for", fix: `write "tcp://HOST:PORT", or https:// for a server that speaks HTTP`}
	}
	*f.at = text
	return nil
}

func (f urlField) text() string { return Quote(RedactURL(*f.at)) }
func (f urlField) Allowed() string {
	return `an http or https URL such as https://example.com/mcp, "unix:/path/to.sock" or "tcp://HOST:PORT"`
}

// proxyField is "", "off" or the URL of an HTTP proxy, which may hold a password.
type proxyField struct{ at *string }

func (f proxyField) Set(v Literal) error {
	text, ok := v.plainText()
	if !ok {
		return problemf("must be text, not %s", v.Kind)
	}
	if text != "" && text != Off {
		u, err := url.Parse(text)
		if err != nil || HasControl(text) || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
			return problemf("is not the URL of an HTTP proxy")
		}
	}
	*f.at = text
	return nil
}

func (f proxyField) text() string {
	if *f.at == "" || *f.at == Off {
		return Quote(*f.at)
	}
	return Quote(RedactURL(*f.at))
}

func (f proxyField) Allowed() string {
	return `an http or https URL such as http://proxy.example:3128, "off", or "" for HTTPS_PROXY`
}

// secretField is one header or variable; store keeps it in its map.
type secretField struct {
	store func(Secret)
	check func(value string) error
	what  string
}

func (f secretField) Set(v Literal) error {
	text, ok := v.scalarText()
	if !ok {
		return problemf("must be text, not %s", v.Kind)
	}
	if err := f.check(text); err != nil {
		return err
	}
	f.store(Secret{value: text})
	return nil
}

func (f secretField) text() string    { return Quote(hidden) }
func (f secretField) Allowed() string { return f.what }

// keyField is a secret of a minimal length, in bytes; "" is allowed and unset.
type keyField struct {
	at    *Secret
	least int
}

func (f keyField) Set(v Literal) error {
	text, ok := v.scalarText()
	switch {
	case !ok:
		return problemf("must be text, not %s", v.Kind)
	case text != "" && len(text) < f.least:
		return problemf("is %d bytes long; at least %d are needed (the value is not shown)", len(text), f.least)
	}
	*f.at = Secret{value: text}
	return nil
}

func (f keyField) text() string {
	if f.at.value == "" {
		return `""`
	}
	return Quote(hidden)
}

func (f keyField) Allowed() string {
	return fmt.Sprintf(`at least %d characters, "env:NAME" or "file:/path", or "" for a random key`, f.least)
}
