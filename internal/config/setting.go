package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"dragoman/adapters/service"
	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
)

// setting is one known key. The tables of settings drive decoding, checking, flags, variables, `config print` and the
// help. T is what it is a setting of, [Config] or [Upstream]. Exactly one of field and entry is set, except for a
// free-form table and for a table of named entries, which have neither.
type setting[T any] struct {
	Key string // dotted, as in the file
	std string // the default, as written in the environment
	doc string // description in one line
	arg string // placeholder for the value in help, e.g. HOST:PORT

	// writes names the cells that the key writes, if they are not the key itself: service.host, listen and http_host
	// set the same value.
	writes []string
	mcp    string  // the variable that server scaffolds define
	noEnv  bool    // there is no DRAGOMAN_ variable
	flag   string  // the flag's name, without dashes
	on     Command // the commands that have the flag
	open   bool    // a table whose keys users choose
	null   bool    // null in a file counts as not set
	secret bool    // never shown; "env:NAME" and "file:/path" are followed
	needs  string  // UrlKey (http or https) or CommandKey: no other upstream may set it

	field func(*T) field.Field
	entry func(at *T, name string) (field.Field, error)
	// take, for a free-form table, gets each value in it. own is the path within the table.
	take func(at *T, own []string, v value.Literal) error
	// parts, for a table of entries that users name, returns the keys of one entry, which it makes if there is none.
	// names returns the names of the entries.
	parts func(at *T, name string) ([]part, error)
	names func(at *T) []string
}

// Command is a set of commands.
type Command int

// The commands that flags belong to.
const (
	OnServe Command = 1 << iota
	OnStdio
	OnProbe
	OnDemo
	OnConfig
)

// alias reports whether the key only writes other keys' cells.
func (s *setting[T]) alias() bool { return len(s.writes) > 0 }

// cells returns the cells that the key writes.
func (s *setting[T]) cells() []string {
	if s.alias() {
		return s.writes
	}
	return []string{s.Key}
}

// envPrefix begins the names of all variables of our own.
const envPrefix = "DRAGOMAN_"

// env returns the name of the key's own variable; "" if it has none.
func (s *setting[T]) env() string {
	if s.noEnv || s.alias() && s.Key != listenKey || s.open {
		return ""
	}
	return envPrefix + envName(s.Key)
}

// envName returns a key as a part of a variable's name.
func envName(key string) string {
	return strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(key))
}

// Keys that the code refers to.
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
	UpstreamsKey      = "upstreams"
	UrlKey            = "url"
	CommandKey        = "command"
	HeadersKey        = "headers"
	EnvKey            = "env"
	PromptsKey        = "prompts"
	ResourcesKey      = "resources"
	AccessKey         = "access"
	ForwardKey        = "forward_headers"
	ScopesKey         = "scopes"
	ToolsKey          = "tools"
	tlsTable          = "tls."
	TracingHeadersKey = "tracing.headers"
)

// Values that the code refers to.
const (
	Auto        = "auto"
	production  = "production"
	stdioName   = "stdio"
	stdioType   = "STDIO"
	defaultName = "default" // the upstream of the command line
)

// Patterns of the names that users choose.
var (
	serviceName  = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	serverName   = regexp.MustCompile(`^[a-z0-9-]+$`)
	UpstreamName = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)
	semver       = service.Semver
	KeyName      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)
	HeaderName   = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$") // RFC 9110 §5.6.2
	VariableName = regexp.MustCompile(`^[^=\x00-\x1f\x7f]+$`)
)

const (
	maxName   = 64
	maxList   = 1000
	maxHeader = 16 << 10 // bytes of one header's value
	day       = 24 * time.Hour
)

// ownHeaders maps headers that cannot have a static value to the reason: Dragoman writes them, or they concern one hop
// only (RFC 9110 §7.6.1).
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

// headerEntry returns the field of one static header; the last one written wins.
func headerEntry(u *Upstream, name string) (field.Field, error) {
	if !HeaderName.MatchString(name) {
		return nil, &value.Problem{What: fmt.Sprintf("%q is not a header name", value.Shorten(name)), Fix: "write a name such as Authorization (RFC 9110 §5.6.2)"}
	}
	lower := strings.ToLower(name)
	if why, own := ownHeaders[lower]; own || strings.HasPrefix(lower, "mcp-param-") {
		if why == "" {
			why = "Dragoman mirrors it from the message"
		}
		return nil, &value.Problem{What: fmt.Sprintf("the header %s cannot be set: %s", name, why), Fix: "remove it"}
	}
	store := func(secret value.Secret) {
		for i := range u.Headers {
			if strings.EqualFold(u.Headers[i].Name, name) {
				u.Headers[i] = Header{Name: name, Value: secret}
				return
			}
		}
		u.Headers = append(u.Headers, Header{Name: name, Value: secret})
	}
	return field.SecretText{Store: store, Check: checkHeaderValue, What: `the header's value, "env:NAME" or "file:/path"`}, nil
}

// checkHeaderValue refuses what would end the header (RFC 9110 §5.5).
func checkHeaderValue(text string) error {
	switch {
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return value.Problemf("contains a control character (the value is not shown)")
	case len(text) > maxHeader:
		return value.Problemf("is %d bytes long; at most %d are allowed", len(text), maxHeader)
	case strings.TrimSpace(text) != text:
		return value.Problemf("begins or ends with white space (the value is not shown)")
	}
	return nil
}

// envEntry returns the field of one variable of a child.
func envEntry(u *Upstream, name string) (field.Field, error) {
	if !VariableName.MatchString(name) {
		return nil, &value.Problem{What: fmt.Sprintf("%q is not the name of a variable", value.Shorten(name)), Fix: "write a name such as API_KEY"}
	}
	store := func(secret value.Secret) {
		for i := range u.Env {
			if u.Env[i].Name == name {
				u.Env[i].Value = secret
				return
			}
		}
		u.Env = append(u.Env, value.EnvVar{Name: name, Value: secret})
	}
	return field.SecretText{Store: store, Check: field.CheckArgument, What: `the variable's value, "env:NAME" or "file:/path"`}, nil
}

func span(place func(*Upstream) *time.Duration, least, most time.Duration, zero string) func(*Upstream) field.Field {
	return func(u *Upstream) field.Field {
		return field.Duration{At: place(u), Least: least, Most: most, Zero: zero}
	}
}

func bytesField(place func(*Config) *int) func(*Config) field.Field {
	return func(c *Config) field.Field { return field.Size{At: place(c), Least: field.Kib, Most: field.Gib} }
}

// userTable reports whether users choose the names in a table of the file, which may then have dots.
func userTable(path []string) bool {
	if len(path) == 0 {
		return false
	}
	if path[0] == UpstreamsKey {
		return len(path) >= 3 && (path[2] == HeadersKey || path[2] == ForwardKey || path[2] == EnvKey || path[2] == ScopesKey) || len(path) == 3 && slices.Contains([]string{ToolsKey, PromptsKey, ResourcesKey, AccessKey}, path[2])
	}
	return path[0] == "dependencies" || len(path) == 2 && path[0] == "security" && path[1] == "api_keys"
}

// part is one key of an entry in a table whose entries users name: upstreams.NAME.tools.TOOL.timeout is the part
// "timeout" of the entry TOOL.
type part struct {
	key    string
	doc    string // description in one line
	secret bool   // never shown; "env:NAME" and "file:/path" are followed
	field  field.Field
}

// partsOf makes the parts function of a setting. find returns the entry of a name, which it makes if there is none, or
// an error for an invalid name. keys returns the keys of an entry.
func partsOf[T, E any](find func(at *T, name string) (*E, error), keys func(e *E) []part) func(*T, string) ([]part, error) {
	return func(at *T, name string) ([]part, error) {
		e, err := find(at, name)
		if err != nil {
			return nil, err
		}
		return keys(e), nil
	}
}

// entryOf returns the entry of a name in a list, or appends the one that fresh makes.
func entryOf[E any](list *[]*E, name func(*E) string, wanted string, fresh func() *E) *E {
	if i := slices.IndexFunc(*list, func(e *E) bool { return name(e) == wanted }); i >= 0 {
		return (*list)[i]
	}
	e := fresh()
	*list = append(*list, e)
	return e
}
