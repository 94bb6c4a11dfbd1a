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

	"dragoman/internal/config/value"
	"dragoman/proxy"
)

// Bounds of ports. Privileged ports are left to whatever maps them.
const (
	LeastPort   = 1
	MostPort    = 65535
	portAllowed = "1 to 65535, or 0 for any free port"
	Off         = "off"
)

// parsed is a field for text with a syntax of its own.
type parsed struct {
	at       *string
	parse    func(v value.Literal) (string, error) // returns what is stored
	notation Notation
	redact   func(text string) string // removes what may be secret; nil: nothing may
}

// Set implements [Field].
func (f parsed) Set(v value.Literal) error {
	text, err := f.parse(v)
	if err == nil {
		*f.at = text
	}
	return err
}

// Text implements [Field].
func (f parsed) Text() string {
	if f.redact != nil {
		return value.Quote(f.redact(*f.at))
	}
	return value.Quote(*f.at)
}

// Notation implements [Field].
func (f parsed) Notation() Notation { return f.notation }

// Redacts reports whether Text leaves out a part of the value, which may be secret.
func Redacts(f Field) bool {
	p, is := f.(parsed)
	return is && p.redact != nil && p.redact(*p.at) != *p.at
}

// urlNotation returns the notation of a URL that matches a pattern.
func urlNotation(allowed, pattern string) Notation {
	return Notation{Kind: "URL", Bounds: allowed, Shape: Shape{Type: StringType, Pattern: pattern}}
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*\.?$`)

// validHost accepts an IP address (an IPv6 one with or without zone) or a host name.
func validHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return len(host) <= 253 && hostName.MatchString(host)
}

// Host returns the field of a bind address.
func Host(at *string) Field {
	return parsed{at: at, notation: Notation{Kind: "host", Bounds: "an IP address or a host name, without a port", Shape: Shape{Type: StringType, MinLength: 1}},
		parse: func(v value.Literal) (string, error) {
			text, ok := v.PlainText()
			if !ok {
				return "", value.Problemf("must be text, not %s; quote it", v.Show())
			}
			if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
				text = text[1 : len(text)-1]
			}
			if !validHost(text) {
				return "", value.Problemf("%s is not an IP address or a host name", v.Show())
			}
			return text, nil
		}}
}

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

const addressPattern = `^.*:[0-9]+$`

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

// Notation implements [Field].
func (f Listen) Notation() Notation {
	return Notation{Kind: "address", Bounds: "HOST:PORT such as 127.0.0.1:8080, port " + portAllowed, Shape: Shape{Type: StringType, Pattern: addressPattern}}
}

// Admin returns the field of HOST:PORT or "off".
func Admin(at *string) Field {
	return parsed{at: at, notation: Notation{Kind: "address", Bounds: "HOST:PORT such as 127.0.0.1:9090, or off", Shape: Shape{Type: StringType, Pattern: addressPattern + "|^off$"}},
		parse: func(v value.Literal) (string, error) {
			if text, ok := v.PlainText(); ok && text == Off {
				return Off, nil
			}
			host, port, err := SplitListen(v)
			return net.JoinHostPort(host, strconv.Itoa(port)), err
		}}
}

// URL returns the field of the address of an upstream.
func URL(at *string) Field {
	return parsed{at: at, parse: parseUpstream, redact: value.RedactURL,
		notation: urlNotation(`an http or https URL such as https://example.com/mcp, "unix:/path/to.sock", "tcp://HOST:PORT" or "grpc://HOST:PORT"`, `^(https?://|tcp://|unix:|grpcs?://|dns:/).`)}
}

func parseUpstream(v value.Literal) (string, error) {
	text, ok := v.PlainText()
	if !ok {
		return "", value.Problemf("must be text, not %s", v.Kind)
	}
	if socket, err := CheckSocket(text); socket {
		return text, err
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || value.HasControl(text):
		return "", value.Problemf("is not a URL") // not repeated: a password may be in it
	case u.Scheme == "grpc" || u.Scheme == "grpcs" || u.Scheme == "dns":
		return text, checkGRPC(u)
	case u.Scheme != "http" && u.Scheme != "https":
		return "", value.Problemf("has the scheme %q; only http, https, grpc, grpcs, dns, unix and tcp are spoken", value.Shorten(u.Scheme))
	case u.User != nil:
		return "", &value.Problem{What: "contains user information", Fix: `put the credentials into headers: Authorization = "env:NAME"`}
	case u.Hostname() == "":
		return "", value.Problemf("has no host")
	case u.Fragment != "":
		return "", &value.Problem{What: "has a fragment, which is never sent", Fix: "remove the # and what follows"}
	}
	return text, nil
}

// CheckSocket checks the address of a server that speaks lines over a socket, unix:/PATH or tcp://HOST:PORT. socket
// reports whether text is one; other URLs are not checked.
func CheckSocket(text string) (socket bool, err error) {
	if path, ok := strings.CutPrefix(text, value.UnixScheme); ok {
		return true, checkUnix(SocketPath(path))
	}
	if u, err := url.Parse(text); err == nil && u.Scheme == "tcp" && !value.HasControl(text) {
		return true, checkTCP(u)
	}
	return false, nil
}

// maxSocketPath is the longest path that fits into an address, in bytes (unix(7)); some systems have less.
const maxSocketPath = 107

func checkUnix(path string) error {
	switch {
	case value.HasControl(path):
		return value.Problemf("is not the path of a socket")
	case !strings.HasPrefix(path, "/"):
		return &value.Problem{What: "is not followed by an absolute path", Fix: `write "unix:/path/to.sock"`}
	case len(path) > maxSocketPath:
		return &value.Problem{What: fmt.Sprintf("has a path of %d bytes; an address holds %d", len(path), maxSocketPath), Fix: "put the socket into a directory with a shorter name"}
	}
	return nil
}

// SocketPath removes the empty authority of unix:///path.
func SocketPath(path string) string {
	if rest, ok := strings.CutPrefix(path, "//"); ok {
		return rest
	}
	return path
}

// GRPCTarget returns the address of a gRPC service in the syntax of gRPC, and whether it is reached by TLS. ok is false for any other URL.
func GRPCTarget(raw string) (target string, secure, ok bool) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", false, false
	}
	switch u.Scheme {
	case "grpc", "grpcs":
		return "dns:///" + u.Host, u.Scheme == "grpcs", true
	case "dns":
		return raw, false, true
	}
	return "", false, false
}

// checkGRPC checks the address of a gRPC service: grpc://HOST:PORT, grpcs://HOST:PORT, dns:///NAME:PORT or dns://SERVER/NAME:PORT.
func checkGRPC(u *url.URL) error {
	fix := `write "` + u.Scheme + `://HOST:PORT"`
	at, rest := u.Host, u.Path
	if u.Scheme == "dns" {
		fix = `write "dns:///NAME:PORT"`
		at, rest = strings.TrimPrefix(u.Path, "/"), ""
	}
	host, port, err := net.SplitHostPort(at)
	number, perr := strconv.Atoi(port)
	switch {
	case u.User != nil:
		return &value.Problem{What: "contains user information", Fix: `put the credentials into headers: Authorization = "env:NAME"`}
	case err != nil || perr != nil || number < 1 || number > MostPort:
		return &value.Problem{What: "has no port of 1 to 65535", Fix: fix}
	case host == "" || !validHost(host):
		return &value.Problem{What: "has no host", Fix: fix}
	case rest != "" || u.Opaque != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return &value.Problem{What: "has something after the port, which gRPC has no place for", Fix: fix}
	}
	return nil
}

func checkTCP(u *url.URL) error {
	const fix = `write "tcp://HOST:PORT"`
	port, err := strconv.Atoi(u.Port())
	switch {
	case u.User != nil:
		return &value.Problem{What: "contains user information, which lines over TCP have no place for", Fix: fix}
	case u.Hostname() == "" || !validHost(u.Hostname()):
		return &value.Problem{What: "has no host", Fix: fix}
	case err != nil || port < 1 || port > MostPort:
		return &value.Problem{What: "has no port of 1 to 65535", Fix: fix}
	case u.Path != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return &value.Problem{What: "has something after the port, which lines over TCP have no place for", Fix: fix + ", or https:// for a server that speaks HTTP"}
	}
	return nil
}

// webPattern matches an http or https URL, and the empty string.
const webPattern = `^$|^https?://.`

// isWeb reports whether text is an http or https URL with a host. u is text, parsed, and err the error of that.
func isWeb(text string, u *url.URL, err error) bool {
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && !value.HasControl(text)
}

// Proxy returns the field of "", "off" or the URL of an HTTP proxy, which may hold a password.
func Proxy(at *string) Field {
	return parsed{at: at, redact: value.RedactURL, notation: urlNotation(`an http or https URL such as http://proxy.example:3128, "off", or "" for HTTPS_PROXY`, webPattern+"|^off$"),
		parse: func(v value.Literal) (string, error) {
			text, ok := v.PlainText()
			if !ok {
				return "", value.Problemf("must be text, not %s", v.Kind)
			}
			if u, err := url.Parse(text); text != "" && text != Off && !isWeb(text, u, err) {
				return "", value.Problemf("is not the URL of an HTTP proxy")
			}
			return text, nil
		}}
}

// Link returns the field of an https URL, or an http URL on the loopback: what is sent there is secret, or decides who
// is let in.
func Link(at *string) Field {
	return parsed{at: at, notation: urlNotation("an https URL, or an http one on the loopback", webPattern), parse: parseLink}
}

func parseLink(v value.Literal) (string, error) {
	text, ok := v.PlainText()
	u, err := url.Parse(text)
	switch {
	case ok && text == "":
	case !ok || err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || value.HasControl(text):
		return "", value.Problemf("%s is not a URL", v.Show())
	case u.Scheme != "https" && (u.Scheme != "http" || !proxy.IsLoopbackHost(u.Hostname())):
		return "", value.Problemf("%s is not https, and not on this machine", v.Show())
	}
	return text, nil
}

// Decision returns the field of the address of a decision point: that of [Link], or unix:/PATH with, behind another colon, the path of the
// resource there.
func Decision(at *string) Field {
	return parsed{at: at, notation: urlNotation(`an https URL, an http one on the loopback, or "unix:/path/to.sock:/v1/data/…"`, webPattern+"|^unix:."),
		parse: func(v value.Literal) (string, error) {
			text, _ := v.PlainText()
			path, unix := strings.CutPrefix(text, value.UnixScheme)
			if !unix {
				return parseLink(v)
			}
			socket, resource, _ := strings.Cut(SocketPath(path), ":")
			if resource != "" && !strings.HasPrefix(resource, "/") {
				return "", &value.Problem{What: "has no path of a resource behind the socket's", Fix: `write "unix:/path/to.sock:/v1/data/…"`}
			}
			return text, checkUnix(socket)
		}}
}

// Sink returns the field of the address of a receiver of events: an http or https URL, a Unix socket as of [Decision], or addresses of NATS.
func Sink(at *string) Field {
	return parsed{at: at, notation: urlNotation(`an http or https URL, "unix:/path/to.sock:/path", or "nats://HOST:4222" or "tls://HOST:4222", several with commas between`, webPattern+"|^unix:.|^(nats|tls)://"),
		parse: func(v value.Literal) (string, error) {
			text, ok := v.PlainText()
			if path, unix := strings.CutPrefix(text, value.UnixScheme); ok && unix {
				socket, _, _ := strings.Cut(SocketPath(path), ":")
				return text, checkUnix(socket)
			}
			for address := range strings.SplitSeq(text, ",") {
				u, err := url.Parse(address)
				if !ok || err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || value.HasControl(text) || !slices.Contains([]string{"http", "https", "nats", "tls"}, u.Scheme) {
					return "", &value.Problem{What: "is no address of a receiver of events, or has credentials", Fix: `write an http or https URL, or "nats://HOST:4222", without credentials`}
				}
				if strings.Contains(text, ",") && u.Scheme != "nats" && u.Scheme != "tls" {
					return "", value.Problemf("has several addresses, which only NATS has")
				}
			}
			return text, nil
		}}
}

// parseWeb returns the text of an http or https URL and the URL itself, which has no parts if the text is empty. The
// error for anything else proposes fix.
func parseWeb(v value.Literal, fix string) (string, *url.URL, error) {
	text, ok := v.PlainText()
	if !ok {
		return "", nil, value.Problemf("must be text, not %s", v.Kind)
	}
	u, err := url.Parse(text)
	if text != "" && !isWeb(text, u, err) {
		return "", nil, &value.Problem{What: "is not an http or https URL", Fix: fix}
	}
	return text, u, nil
}

// Endpoint returns the field of the address of a collector.
func Endpoint(at *string) Field {
	return parsed{at: at, notation: urlNotation("an http or https URL, or empty", webPattern), parse: func(v value.Literal) (string, error) {
		text, u, err := parseWeb(v, `write one such as "http://127.0.0.1:4318"; OTLP over gRPC, usually at port 4317, is not spoken`)
		if err == nil && (u.User != nil || u.Fragment != "" || u.RawQuery != "") {
			err = &value.Problem{What: "has user information, a query or a fragment", Fix: "remove them; what the collector wants to know of us goes into tracing.headers"}
		}
		return text, err
	}}
}

// CheckURL returns the field of the address of a health check.
func CheckURL(at *string) Field {
	return parsed{at: at, redact: value.RedactURL, notation: urlNotation("an http or https URL", webPattern), parse: func(v value.Literal) (string, error) {
		text, u, err := parseWeb(v, `write one such as "https://example.com/health"`)
		if err == nil && (u.User != nil || u.Fragment != "") {
			err = &value.Problem{What: "has user information or a fragment", Fix: "remove them; headers of the upstream go to its own address only"}
		}
		return text, err
	}}
}
