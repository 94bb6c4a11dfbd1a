package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"dragoman/adapters/service"
)

// setting is one known key: a row of the tables in config_keys.go, which drive
// decoding, checking, flags, variables, `config print` and the help. T is what
// it is a setting of, [Config] or [Upstream]. Exactly one of field and entry
// is set, except for a free-form table and one of named entries, which have neither.
type setting[T any] struct {
	Key string // dotted, as in the file
	std string // the default, as one would write it in the environment
	doc string // one line: what it is
	arg string // what stands for the value in help, e.g. HOST:PORT

	// writes names the cells that the key writes where they are not the key
	// itself: service.host, listen and http_host are ways to say the same.
	writes []string
	mcp    string  // the variable that the scaffolds' requirements name
	noEnv  bool    // there is no DRAGOMAN_ variable
	flag   string  // the flag's name, without dashes
	on     Command // the commands that have the flag
	open   bool    // a table whose keys are the user's
	null   bool    // null in a file means: not set
	secret bool    // never shown; "env:NAME" and "file:/path" are followed
	needs  string  // UrlKey (of HTTP) or CommandKey: of no other upstream it may be set

	field func(*T) field
	entry func(at *T, name string) (field, error)
	// take, of a free-form table, sees what stands in it: own is the path within.
	take func(at *T, own []string, v Literal) error
	// parts, of a table of entries that the user names, gives the keys of one entry, which is made if it is not there; names lists
	// the entries that are.
	parts func(at *T, name string) ([]part, error)
	names func(at *T) []string
}

// Command is a set of commands.
type Command int

const (
	OnServe Command = 1 << iota
	OnStdio
	OnProbe
	OnDemo
	OnConfig
)

// alias tells whether the key only writes what another key is the name of.
func (s *setting[T]) alias() bool { return len(s.writes) > 0 }

// cells are the places that the key writes.
func (s *setting[T]) cells() []string {
	if s.alias() {
		return s.writes
	}
	return []string{s.Key}
}

// envPrefix is common to all variables of our own.
const envPrefix = "DRAGOMAN_"

// env is the name of the key's own variable; "" if it has none.
func (s *setting[T]) env() string {
	if s.noEnv || s.alias() && s.Key != listenKey || s.open {
		return ""
	}
	return envPrefix + envName(s.Key)
}

// envName is a key as a part of a variable's name.
func envName(key string) string {
	return strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(key))
}

// Keys that the code itself needs to name.
const (
	listenKey         = "listen"
	hostKey           = "service.host"
	portKey           = "service.port"
	adminKey          = "admin.listen"
	erasKey           = "eras"
	anonymousKey      = "security.allow_anonymous"
	rateKey           = "security.rate_limit"
	rateLimitingKey   = "security.rate_limiting"
	apiKeysKey        = "security.api_keys_enabled"
	transportKey      = "transport_type"
	profileKey        = "profile"
	toolTimeout       = "tool_timeout"
	upstreamsKey      = "upstreams"
	UrlKey            = "url"
	CommandKey        = "command"
	headersKey        = "headers"
	envKey            = "env"
	promptsKey        = "prompts"
	resourcesKey      = "resources"
	accessKey         = "access"
	forwardKey        = "forward_headers"
	scopesKey         = "scopes"
	toolsKey          = "tools"
	tlsTable          = "tls."
	tracingHeadersKey = "tracing.headers"
)

// Values that the code itself needs to name.
const (
	Auto        = "auto"
	production  = "production"
	stdioName   = "stdio"
	stdioType   = "STDIO"
	defaultName = "default" // the upstream of the command line
)

// Names that people choose.
var (
	serviceName  = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	serverName   = regexp.MustCompile(`^[a-z0-9-]+$`)
	upstreamName = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)
	semver       = service.Semver
	keyName      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)
	headerName   = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$") // RFC 9110 §5.6.2
	variableName = regexp.MustCompile(`^[^=\x00-\x1f\x7f]+$`)
)

const (
	maxName   = 64
	maxList   = 1000
	maxHeader = 16 << 10 // bytes of one header's value
	day       = 24 * time.Hour
)

// ownHeaders are those that Dragoman itself writes, or that concern one hop
// only (RFC 9110 §7.6.1), with the reason why a static value is refused.
var ownHeaders = map[string]string{
	"accept":               "Dragoman writes it as the protocol asks",
	"connection":           "it concerns one connection only",
	"content-encoding":     "Dragoman writes the body",
	"content-length":       "Dragoman writes the body",
	"content-type":         "Dragoman writes the body",
	"host":                 "it is taken from url",
	"keep-alive":           "it concerns one connection only",
	"last-event-id":        "Dragoman writes it when it resumes a stream",
	"mcp-method":           "Dragoman mirrors it from the message",
	"mcp-name":             "Dragoman mirrors it from the message",
	"mcp-protocol-version": "Dragoman writes it as negotiated",
	"mcp-session-id":       "Dragoman keeps the sessions",
	"proxy-authorization":  "put the password into proxy",
	"proxy-connection":     "it concerns one connection only",
	"te":                   "it concerns one connection only",
	"trailer":              "it concerns one connection only",
	"transfer-encoding":    "it concerns one connection only",
	"upgrade":              "it concerns one connection only",
}

// headerEntry is the place of one static header; the last one written wins.
func headerEntry(u *Upstream, name string) (field, error) {
	if !headerName.MatchString(name) {
		return nil, &problem{what: fmt.Sprintf("%q is not a header name", Shorten(name)), fix: "write a name such as Authorization (RFC 9110 §5.6.2)"}
	}
	lower := strings.ToLower(name)
	if why, own := ownHeaders[lower]; own || strings.HasPrefix(lower, "mcp-param-") {
		if why == "" {
			why = "Dragoman mirrors it from the message"
		}
		return nil, &problem{what: fmt.Sprintf("the header %s cannot be set: %s", name, why), fix: "remove it"}
	}
	store := func(value Secret) {
		for i := range u.Headers {
			if strings.EqualFold(u.Headers[i].Name, name) {
				u.Headers[i] = Header{Name: name, Value: value}
				return
			}
		}
		u.Headers = append(u.Headers, Header{Name: name, Value: value})
	}
	return secretField{store: store, check: checkHeaderValue, what: `the header's value, "env:NAME" or "file:/path"`}, nil
}

// checkHeaderValue keeps out what would end the header (RFC 9110 §5.5).
func checkHeaderValue(value string) error {
	switch {
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return problemf("contains a control character (the value is not shown)")
	case len(value) > maxHeader:
		return problemf("is %d bytes long; at most %d are allowed", len(value), maxHeader)
	case strings.TrimSpace(value) != value:
		return problemf("begins or ends with white space (the value is not shown)")
	}
	return nil
}

// envEntry is the place of one variable of a child.
func envEntry(u *Upstream, name string) (field, error) {
	if !variableName.MatchString(name) {
		return nil, &problem{what: fmt.Sprintf("%q is not the name of a variable", Shorten(name)), fix: "write a name such as API_KEY"}
	}
	store := func(value Secret) {
		for i := range u.Env {
			if u.Env[i].Name == name {
				u.Env[i].Value = value
				return
			}
		}
		u.Env = append(u.Env, EnvVar{Name: name, Value: value})
	}
	return secretField{store: store, check: checkArgument, what: `the variable's value, "env:NAME" or "file:/path"`}, nil
}

func span(place func(*Upstream) *time.Duration, least, most time.Duration, zero string) func(*Upstream) field {
	return func(u *Upstream) field { return durationField{at: place(u), least: least, most: most, zero: zero} }
}

func bytesField(place func(*Config) *int) func(*Config) field {
	return func(c *Config) field { return sizeField{at: place(c), least: Kib, most: gib} }
}

// userTable tells whether the names in a table of the file are the user's, who may write dots in them.
func userTable(path []string) bool {
	if len(path) == 0 {
		return false
	}
	if path[0] == upstreamsKey {
		return len(path) >= 3 && (path[2] == headersKey || path[2] == forwardKey || path[2] == envKey || path[2] == scopesKey) || len(path) == 3 && slices.Contains([]string{toolsKey, promptsKey, resourcesKey, accessKey}, path[2])
	}
	return path[0] == "dependencies" || len(path) == 2 && path[0] == "security" && path[1] == "api_keys"
}
