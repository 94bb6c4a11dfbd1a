package field

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
	"dragoman/internal/config/value"
)

// Bounds of ports. Privileged ports are left to whatever maps them.
const (
	LeastPort   = 1024
	MostPort    = 65535
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

// Host is a field for a bind address.
type Host struct{ At *string }

// Set implements [Field].
func (f Host) Set(v value.Literal) error {
	text, ok := v.PlainText()
	if !ok {
		return value.Problemf("must be text, not %s; quote it", v.Show())
	}
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		text = text[1 : len(text)-1]
	}
	if !validHost(text) {
		return value.Problemf("%s is not an IP address or a host name", v.Show())
	}
	*f.At = text
	return nil
}

// Text implements [Field].
func (f Host) Text() string { return value.Quote(*f.At) }

// Allowed implements [Field].
func (f Host) Allowed() string { return "an IP address or a host name, without a port" }

// SplitListen parses HOST:PORT. A missing host means all interfaces.
func SplitListen(v value.Literal) (host string, port int, err error) {
	text, ok := v.PlainText()
	if !ok {
		return "", 0, value.Problemf("must be HOST:PORT, not %s", v.Show())
	}
	host, portText, err := net.SplitHostPort(text)
	if err != nil {
		return "", 0, value.Problemf("%s is not HOST:PORT", v.Show())
	}
	if host == "" {
		host = "0.0.0.0" // as in other programs; this way the loopback check sees it
	}
	if !validHost(host) {
		return "", 0, value.Problemf("%s: the host is neither an IP address nor a host name", v.Show())
	}
	port, err = strconv.Atoi(portText)
	if err != nil || port != 0 && (port < LeastPort || port > MostPort) {
		return "", 0, &value.Problem{What: fmt.Sprintf("%s: the port is out of range", v.Show()), Fix: "choose a port of " + portAllowed}
	}
	return host, port, nil
}

// Listen is a field for HOST:PORT, kept in two places.
type Listen struct {
	Host *string
	Port *int
}

// Set implements [Field].
func (f Listen) Set(v value.Literal) error {
	host, port, err := SplitListen(v)
	if err != nil {
		return err
	}
	*f.Host, *f.Port = host, port
	return nil
}

// Text implements [Field].
func (f Listen) Text() string { return value.Quote(net.JoinHostPort(*f.Host, strconv.Itoa(*f.Port))) }

// Allowed implements [Field].
func (f Listen) Allowed() string {
	return "HOST:PORT such as 127.0.0.1:8080, port " + portAllowed
}

// Admin is a field for HOST:PORT or "off".
type Admin struct{ At *string }

// Set implements [Field].
func (f Admin) Set(v value.Literal) error {
	if text, ok := v.PlainText(); ok && text == Off {
		*f.At = Off
		return nil
	}
	host, port, err := SplitListen(v)
	if err != nil {
		return err
	}
	*f.At = net.JoinHostPort(host, strconv.Itoa(port))
	return nil
}

// Text implements [Field].
func (f Admin) Text() string { return value.Quote(*f.At) }

// Allowed implements [Field].
func (f Admin) Allowed() string { return "HOST:PORT such as 127.0.0.1:9090, or off" }

// List is a field for a list of text. In the environment it is a JSON array, or separated by commas if Commas is true.
type List struct {
	At     *[]string
	Check  func(item string) error
	What   string
	Least  int
	Most   int
	Commas bool
	Words  []string // all possible entries, if they are few: for completion
}

// Set implements [Field].
func (f List) Set(v value.Literal) error {
	if v.Kind == value.WordLiteral {
		var err error
		if v, err = f.split(v.Text); err != nil {
			return err
		}
	}
	if v.Kind != value.ListLiteral {
		return value.Problemf("must be a list, not %s", v.Kind)
	}
	v.Items = f.parts(v.Items)
	if len(v.Items) < f.Least {
		return value.Problemf("is empty")
	}
	if len(v.Items) > f.Most {
		return value.Problemf("has %d entries; at most %d are allowed", len(v.Items), f.Most)
	}
	list := make([]string, 0, len(v.Items))
	for i, item := range v.Items {
		text, ok := item.ScalarText()
		if !ok {
			return value.Problemf("entry %d must be text, not %s", i+1, item.Kind)
		}
		if err := f.Check(text); err != nil {
			return fmt.Errorf("entry %d: %w", i+1, err)
		}
		list = append(list, text)
	}
	*f.At = list
	return nil
}

// parts splits the values of a flag, each of which may be a list again.
func (f List) parts(items []value.Literal) []value.Literal {
	if !f.Commas || !slices.ContainsFunc(items, func(v value.Literal) bool { return v.Kind == value.WordLiteral }) {
		return items
	}
	var all []value.Literal
	for _, item := range items {
		if item.Kind != value.WordLiteral {
			all = append(all, item)
			continue
		}
		for part := range strings.SplitSeq(item.Text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				all = append(all, value.Literal{Kind: value.QuotedLiteral, Text: part})
			}
		}
	}
	return all
}

func (f List) split(text string) (value.Literal, error) {
	list := value.Literal{Kind: value.ListLiteral}
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		var items []string
		if err := json.Unmarshal([]byte(text), &items); err != nil {
			return list, value.Problemf("is not a JSON array of strings")
		}
		for _, item := range items {
			list.Items = append(list.Items, value.Literal{Kind: value.QuotedLiteral, Text: item})
		}
		return list, nil
	}
	if !f.Commas {
		return list, &value.Problem{What: "must be a JSON array of strings: commands are never split like a shell does", Fix: `write ["COMMAND", "ARGUMENT"]`}
	}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list.Items = append(list.Items, value.Literal{Kind: value.QuotedLiteral, Text: item})
		}
	}
	return list, nil
}

// Text implements [Field].
func (f List) Text() string {
	items := make([]string, 0, len(*f.At))
	for _, item := range *f.At {
		items = append(items, value.Quote(item))
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// Allowed implements [Field].
func (f List) Allowed() string { return f.What }

// CheckHostEntry accepts host or host:port, as a Host header has it.
func CheckHostEntry(item string) error {
	host := item
	if h, port, err := net.SplitHostPort(item); err == nil {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > MostPort {
			return value.Problemf("%q has no valid port", value.Shorten(item))
		}
		host = h
	}
	if !validHost(strings.Trim(host, "[]")) {
		return value.Problemf("%q is neither a host nor host:port", value.Shorten(item))
	}
	return nil
}

// CheckOrigin accepts scheme://host[:port] as browsers send it (RFC 6454 §6.1).
// "*" is not an origin: it would undo the defence against DNS rebinding.
func CheckOrigin(item string) error {
	u, err := url.Parse(item)
	if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return value.Problemf("%q is not an origin", value.Shorten(item))
	}
	return nil
}

// Network parses an address, or a network in CIDR notation.
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

// CheckNetwork accepts an address, or a network in CIDR notation.
func CheckNetwork(item string) error {
	if _, err := Network(item); err != nil {
		return value.Problemf("%q is neither an address nor a network", value.Shorten(item))
	}
	return nil
}

// CheckEra accepts modern, legacy and every supported revision.
func CheckEra(item string) error {
	if _, err := rules.Allow([]string{item}); err != nil {
		if near := value.Nearest(item, append(rules.Versions(), "modern", "legacy")); near != "" {
			return value.Problemf("%q is not known; did you mean %q?", value.Shorten(item), near)
		}
		return value.Problemf("%q is not known", value.Shorten(item))
	}
	return nil
}

// CheckArgument accepts what execve can pass on: text without NUL bytes.
func CheckArgument(item string) error {
	if strings.ContainsRune(item, 0) {
		return value.Problemf("contains a NUL byte")
	}
	return nil
}

// URL is a field for the address of an upstream.
type URL struct{ At *string }

// Set implements [Field].
func (f URL) Set(v value.Literal) error {
	text, ok := v.PlainText()
	if !ok {
		return value.Problemf("must be text, not %s", v.Kind)
	}
	if path, ok := strings.CutPrefix(text, value.UnixScheme); ok {
		return f.Unix(text, path)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || value.HasControl(text):
		return value.Problemf("is not a URL") // not repeated: a password may be in it
	case u.Scheme == "tcp":
		return f.Tcp(text, u)
	case u.Scheme != "http" && u.Scheme != "https":
		return value.Problemf("has the scheme %q; only http, https, unix and tcp are spoken", value.Shorten(u.Scheme))
	case u.User != nil:
		return &value.Problem{What: "contains user information", Fix: `put the credentials into headers: Authorization = "env:NAME"`}
	case u.Hostname() == "":
		return value.Problemf("has no host")
	case u.Fragment != "":
		return &value.Problem{What: "has a fragment, which is never sent", Fix: "remove the # and what follows"}
	}
	*f.At = text
	return nil
}

// maxSocketPath is the longest path that fits into an address, in bytes (unix(7)); some systems have less.
const maxSocketPath = 107

// Unix checks and stores the address of a Unix socket. path is text without its scheme.
func (f URL) Unix(text, path string) error {
	path = SocketPath(path)
	switch {
	case value.HasControl(path):
		return value.Problemf("is not the path of a socket")
	case !strings.HasPrefix(path, "/"):
		return &value.Problem{What: "is not followed by an absolute path", Fix: `write "unix:/path/to.sock"`}
	case len(path) > maxSocketPath:
		return &value.Problem{What: fmt.Sprintf("has a path of %d bytes; an address holds %d", len(path), maxSocketPath), Fix: "put the socket into a directory with a shorter name"}
	}
	*f.At = text
	return nil
}

// SocketPath removes the empty authority of unix:///path.
func SocketPath(path string) string {
	if rest, ok := strings.CutPrefix(path, "//"); ok {
		return rest
	}
	return path
}

// Tcp checks and stores the address of a TCP socket. u is text, parsed.
func (f URL) Tcp(text string, u *url.URL) error {
	port, err := strconv.Atoi(u.Port())
	switch {
	case u.User != nil:
		return &value.Problem{What: "contains user information, which lines over TCP have no place for", Fix: `write "tcp://HOST:PORT"`}
	case u.Hostname() == "" || !validHost(u.Hostname()):
		return &value.Problem{What: "has no host", Fix: `write "tcp://HOST:PORT"`}
	case err != nil || port < 1 || port > MostPort:
		return &value.Problem{What: "has no port of 1 to 65535", Fix: `write "tcp://HOST:PORT"`}
	case u.Path != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return &value.Problem{What: "has something after the port, which lines over TCP have no place for", Fix: `write "tcp://HOST:PORT", or https:// for a server that speaks HTTP`}
	}
	*f.At = text
	return nil
}

// Text implements [Field].
func (f URL) Text() string { return value.Quote(value.RedactURL(*f.At)) }

// Allowed implements [Field].
func (f URL) Allowed() string {
	return `an http or https URL such as https://example.com/mcp, "unix:/path/to.sock" or "tcp://HOST:PORT"`
}

// Proxy is a field for "", "off" or the URL of an HTTP proxy, which may hold a password.
type Proxy struct{ At *string }

// Set implements [Field].
func (f Proxy) Set(v value.Literal) error {
	text, ok := v.PlainText()
	if !ok {
		return value.Problemf("must be text, not %s", v.Kind)
	}
	if text != "" && text != Off {
		u, err := url.Parse(text)
		if err != nil || value.HasControl(text) || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
			return value.Problemf("is not the URL of an HTTP proxy")
		}
	}
	*f.At = text
	return nil
}

// Text implements [Field].
func (f Proxy) Text() string {
	if *f.At == "" || *f.At == Off {
		return value.Quote(*f.At)
	}
	return value.Quote(value.RedactURL(*f.At))
}

// Allowed implements [Field].
func (f Proxy) Allowed() string {
	return `an http or https URL such as http://proxy.example:3128, "off", or "" for HTTPS_PROXY`
}

// SecretText is a field for one header or variable. Store keeps the value.
type SecretText struct {
	Store func(value.Secret)
	Check func(value string) error
	What  string
}

// Set implements [Field].
func (f SecretText) Set(v value.Literal) error {
	text, ok := v.ScalarText()
	if !ok {
		return value.Problemf("must be text, not %s", v.Kind)
	}
	if err := f.Check(text); err != nil {
		return err
	}
	f.Store(value.NewSecret(text))
	return nil
}

// Text implements [Field].
func (f SecretText) Text() string { return value.Quote(value.Hidden) }

// Allowed implements [Field].
func (f SecretText) Allowed() string { return f.What }

// Key is a field for a secret of at least Least bytes; "" leaves it unset.
type Key struct {
	At    *value.Secret
	Least int
}

// Set implements [Field].
func (f Key) Set(v value.Literal) error {
	text, ok := v.ScalarText()
	switch {
	case !ok:
		return value.Problemf("must be text, not %s", v.Kind)
	case text != "" && len(text) < f.Least:
		return value.Problemf("is %d bytes long; at least %d are needed (the value is not shown)", len(text), f.Least)
	}
	*f.At = value.NewSecret(text)
	return nil
}

// Text implements [Field].
func (f Key) Text() string {
	if f.At.Reveal() == "" {
		return `""`
	}
	return value.Quote(value.Hidden)
}

// Allowed implements [Field].
func (f Key) Allowed() string {
	return fmt.Sprintf(`at least %d characters, "env:NAME" or "file:/path", or "" for a random key`, f.Least)
}
