package registry

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/goccy/go-json"

	"dragoman/internal/imported"
	"dragoman/proxy/wire"
)

// Limits of what is read of one server.
const (
	maxServer  = 1 << 20 // bytes of its description
	maxNested  = 64      // depth of its JSON
	maxOffers  = 64      // packages, and remotes
	maxInputs  = 256     // arguments, variables or headers of one of them
	maxText    = 16 << 10
	maxVersion = 255
)

// Server is a server as server.json describes it: the members that matter to use it.
type Server struct {
	Name        string    `json:"name"`
	Title       string    `json:"title"`
	Description string    `json:"description"`
	Version     string    `json:"version"`
	WebsiteURL  string    `json:"websiteUrl"`
	Repository  Source    `json:"repository"`
	Packages    []Package `json:"packages"`
	Remotes     []Remote  `json:"remotes"`
}

// Source is where the code of a server is.
type Source struct {
	URL       string `json:"url"`
	Subfolder string `json:"subfolder"`
}

// Package is a program that a package registry has.
type Package struct {
	Type             string     `json:"registryType"`
	BaseURL          string     `json:"registryBaseUrl"`
	Identifier       string     `json:"identifier"`
	Version          string     `json:"version"`
	SHA256           string     `json:"fileSha256"`
	RuntimeHint      string     `json:"runtimeHint"`
	RuntimeArguments []Argument `json:"runtimeArguments"`
	Arguments        []Argument `json:"packageArguments"`
	Env              []Field    `json:"environmentVariables"`
	Transport        Transport  `json:"transport"`
}

// Transport says how a server is spoken to: "stdio", "streamable-http" or "sse".
type Transport struct {
	Type    string  `json:"type"`
	URL     string  `json:"url"`
	Headers []Field `json:"headers"`
}

// Remote is a server that somebody runs.
type Remote struct {
	Transport
	Variables map[string]Input `json:"variables"`
}

// Input is a value, or what is known of one that whoever uses the server gives.
type Input struct {
	Description string   `json:"description"`
	Required    bool     `json:"isRequired"`
	Secret      bool     `json:"isSecret"`
	Format      string   `json:"format"`
	Value       string   `json:"value"`
	Default     string   `json:"default"`
	Placeholder string   `json:"placeholder"`
	Choices     []string `json:"choices"`
}

// Template is an [Input] whose value has variables in it, as {name}.
type Template struct {
	Input
	Variables map[string]Input `json:"variables"`
}

// Field is a header or a variable of the environment.
type Field struct {
	Template
	Name string `json:"name"`
}

// Argument is an argument of a program or of what runs it.
type Argument struct {
	Template
	Type      string `json:"type"` // positional or named
	Name      string `json:"name"` // of a named one, with its dashes
	ValueHint string `json:"valueHint"`
	Repeated  bool   `json:"isRepeated"`
}

// The states of an entry.
const (
	Active     = "active"
	Deprecated = "deprecated"
	Deleted    = "deleted"
)

// Official is what a registry knows of an entry, in the form of the official one.
type Official struct {
	Status        string    `json:"status"`
	StatusMessage string    `json:"statusMessage"`
	PublishedAt   time.Time `json:"publishedAt"`
	UpdatedAt     time.Time `json:"updatedAt"`
	Latest        bool      `json:"isLatest"`
}

// Entry is a version of a server in a registry.
type Entry struct {
	Server Server
	Official
	// Raw is the answer of the registry.
	Raw []byte
}

// named matches the name of a server: a reverse-DNS namespace, a slash, a name. It has ASCII only, so that no letter looks like another.
var named = regexp.MustCompile(`^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`)

// The lengths of a name in bytes.
const minName, maxName = 3, 200

// ValidName reports whether a text can be the name of a server.
func ValidName(name string) bool {
	return len(name) >= minName && len(name) <= maxName && named.MatchString(name)
}

// ValidVersion reports whether a text can be the version of a server: any text without blanks and characters that cannot be seen.
func ValidVersion(version string) bool {
	return version != "" && len(version) <= maxVersion && !strings.ContainsFunc(version, func(r rune) bool { return r == unicode.ReplacementChar || unicode.IsSpace(r) || !unicode.IsPrint(r) })
}

// Parse reads a server.json of at most 1 MiB.
func Parse(data []byte) (*Server, error) {
	s := new(Server)
	if err := decode(data, s); err != nil {
		return nil, err
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	return s, nil
}

// errJSON is the error for what is no JSON of the expected form. The decoder's own would repeat what it has read.
var errJSON = errors.New("it is not the JSON that is expected")

// decode reads JSON with bounds.
func decode(data []byte, to any) error {
	switch {
	case len(data) > maxServer:
		return fmt.Errorf("it has more than %d bytes", maxServer)
	case imported.Nested(data) > maxNested:
		return fmt.Errorf("it is nested more than %d deep", maxNested)
	case !json.Valid(data) || json.Unmarshal(data, to) != nil:
		return errJSON
	}
	return nil
}

// check returns an error if a server breaks a rule that its use relies on. What concerns one package or remote is judged when it is chosen.
func (s *Server) check() error {
	switch {
	case !ValidName(s.Name):
		return fmt.Errorf("%q is no name of a server: letters, digits, dots and hyphens, a slash, and the same with underscores", wire.Shown(s.Name))
	case !ValidVersion(s.Version):
		return fmt.Errorf("%q is no version", wire.Shown(s.Version))
	case len(s.Packages) > maxOffers || len(s.Remotes) > maxOffers:
		return fmt.Errorf("it has more than %d packages or remotes", maxOffers)
	}
	for i := range s.Packages {
		p := &s.Packages[i]
		if max(len(p.RuntimeArguments), len(p.Arguments), len(p.Env), len(p.Transport.Headers)) > maxInputs {
			return fmt.Errorf("a package has more than %d arguments, variables or headers", maxInputs)
		}
	}
	for i := range s.Remotes {
		if r := &s.Remotes[i]; max(len(r.Headers), len(r.Variables)) > maxInputs {
			return fmt.Errorf("a remote has more than %d headers or variables", maxInputs)
		}
	}
	return nil
}

// parseEntry reads an entry of an answer.
func parseEntry(raw []byte) (*Entry, error) {
	var e struct {
		Server json.RawMessage `json:"server"`
		Meta   struct {
			Official json.RawMessage `json:"io.modelcontextprotocol.registry/official"`
		} `json:"_meta"`
	}
	if err := decode(raw, &e); err != nil {
		return nil, err
	}
	if len(e.Server) == 0 {
		return nil, errors.New(`it has no "server"`)
	}
	s, err := Parse(e.Server)
	if err != nil {
		return nil, err
	}
	entry := &Entry{Server: *s, Raw: raw}
	if len(e.Meta.Official) > 0 {
		if err := decode(e.Meta.Official, &entry.Official); err != nil {
			return nil, fmt.Errorf("its official _meta: %w", err)
		}
	}
	if entry.Status == "" { // a registry need not know states
		entry.Status = Active
	}
	if !slices.Contains([]string{Active, Deprecated, Deleted}, entry.Status) {
		return nil, fmt.Errorf("its status %q is not known", wire.Shown(entry.Status))
	}
	return entry, nil
}
