package config

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
)

// setting is one known key of a [Config], an [Upstream] or an entry of a table. The lists of settings drive decoding,
// checking, flags, variables, `config print` and the help. Exactly one of field and open is set.
type setting struct {
	key string // dotted, as in the file
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
	null   bool    // null in a file counts as not set
	secret bool    // never shown; "env:NAME" and "file:/path" are followed, in a table those of its values
	needs  string  // UrlKey (http or https) or CommandKey: no other upstream may set it

	field field.Field
	open  *table
}

// table is a table whose keys users choose.
type table struct {
	// names returns the names of the entries. If it is nil, the entries are not printed.
	names func() []string
	fold  bool // names are case-insensitive: headers (RFC 9110 §5.1)
	// entry returns the field of an entry that is a single value.
	entry func(name string) (field.Field, error)
	// parts returns the keys of an entry that is a table, which it makes if there is none.
	parts func(name string) ([]setting, error)
	// take, for a free-form table, gets each value instead. own is the path within the table.
	take func(own []string, v value.Literal) error
}

// cell returns the cell of an entry of the table at key.
func (t *table) cell(key, name string) string {
	if t.fold {
		name = strings.ToLower(name)
	}
	return key + "." + value.KeyPart(name)
}

// entries is a list of what the entries of a table configure.
type entries[E any] struct {
	all   *[]*E
	name  func(*E) string
	fresh func(name string) (*E, error) // makes an entry; the error is for an invalid name
}

func (l entries[E]) names() []string {
	names := make([]string, 0, len(*l.all))
	for _, e := range *l.all {
		names = append(names, l.name(e))
	}
	return names
}

// find returns the entry of a name, which it makes if there is none.
func (l entries[E]) find(name string) (*E, error) {
	e, err := l.fresh(name)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(*l.all, func(e *E) bool { return l.name(e) == name }); i >= 0 {
		return (*l.all)[i], nil
	}
	*l.all = append(*l.all, e)
	return e, nil
}

// table returns the table of the entries. keys returns the keys of one.
func (l entries[E]) table(keys func(*E) []setting) *table {
	return &table{names: l.names, parts: func(name string) ([]setting, error) {
		e, err := l.find(name)
		if err != nil {
			return nil, err
		}
		return keys(e), nil
	}}
}

// secrets returns the table of the headers or variables in a list. The last one written of each name wins. entry
// returns the field of a name, without Store.
func secrets(list *[]value.NamedSecret, fold bool, entry func(name string) (field.SecretText, error)) *table {
	t := &table{fold: fold, names: func() (names []string) {
		for _, s := range *list {
			names = append(names, s.Name)
		}
		return names
	}}
	t.entry = func(name string) (field.Field, error) {
		f, err := entry(name)
		f.Store = func(secret value.Secret) {
			i := slices.IndexFunc(*list, func(s value.NamedSecret) bool { return s.Name == name || fold && strings.EqualFold(s.Name, name) })
			if i < 0 {
				i = len(*list)
				*list = append(*list, value.NamedSecret{})
			}
			(*list)[i] = value.NamedSecret{Name: name, Value: secret}
		}
		return f, err
	}
	return t
}

// upstreamKey returns the name of a key of an upstream.
func upstreamKey(name, key string) string { return UpstreamsKey + "." + name + "." + key }

// AnyName stands in a path for a name that the user chooses.
const AnyName = "NAME"

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

// alias reports whether the key is another name of keys that are printed.
func (s *setting) alias() bool { return len(s.writes) > 0 && s.key != listenKey }

// cells returns the cells that the key writes.
func (s *setting) cells() []string {
	if len(s.writes) > 0 {
		return s.writes
	}
	return []string{s.key}
}

// envPrefix begins the names of all variables of our own.
const envPrefix = "DRAGOMAN_"

// env returns the name of the key's own variable; "" if it has none.
func (s *setting) env() string {
	if s.noEnv || s.alias() || s.open != nil {
		return ""
	}
	return envPrefix + envName(s.key)
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
	DependenciesKey   = "dependencies"
	UpstreamsKey      = "upstreams"
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
	jwtTable          = "security.jwt."
	TracingHeadersKey = "tracing.headers"
	groupsKey         = "groups"
	cataloguePathKey  = "catalogue.path"
	catalogueURLKey   = "catalogue.url"
)

// Values that the code refers to.
const (
	Auto        = "auto"
	production  = "production"
	stdioName   = "stdio"
	StdioType   = "STDIO"
	defaultName = "default" // the upstream of the command line
)

// Patterns of the names that users choose.
var (
	serviceName  = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	serverName   = regexp.MustCompile(`^[a-z0-9-]+$`)
	namespace    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]*(\.[A-Za-z0-9][A-Za-z0-9-]*)*$`)
	UpstreamName = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)
	KeyName      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)
	HeaderName   = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$") // RFC 9110 §5.6.2
	VariableName = regexp.MustCompile(`^[^=\x00-\x1f\x7f]+$`)
)

const (
	maxName = 64
	// maxNamespace leaves room for a slash and the name of a server in the 200 bytes that registries allow.
	maxNamespace = 128
	maxList      = 1000
	maxHeader    = 16 << 10 // bytes of one header's value
	day          = 24 * time.Hour
)
