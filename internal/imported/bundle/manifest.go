package bundle

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-json"

	"dragoman/internal/config/value"
	"dragoman/internal/imported"
	"dragoman/proxy/wire"
)

// The types of servers.
const (
	Node   = "node"
	Python = "python"
	Binary = "binary"
	UV     = "uv" // since 0.4
)

// Limits of a manifest.
const (
	maxNested  = 64
	maxOptions = 256
	maxArgs    = 256
	maxText    = 16 << 10
)

// versions are the versions of manifests that are read. Later ones may start servers in ways that are not known here, and earlier ones are not
// made any more.
var versions = []string{"0.3", "0.4"}

// Manifest is the manifest of a bundle: the members that matter to use it.
type Manifest struct {
	Format        string            `json:"manifest_version"`
	Former        string            `json:"dxt_version"`
	Name          string            `json:"name"`
	DisplayName   string            `json:"display_name"`
	Version       string            `json:"version"`
	Description   string            `json:"description"`
	Author        author            `json:"author"`
	Server        Server            `json:"server"`
	Compatibility compatibility     `json:"compatibility"`
	UserConfig    map[string]Option `json:"user_config"`

	options []string // the names in UserConfig
}

type author struct {
	Name string `json:"name"`
}

type compatibility struct {
	Platforms []string `json:"platforms"`
}

// Server says how the server is started.
type Server struct {
	Type       string `json:"type"`
	EntryPoint string `json:"entry_point"`
	Config     *start `json:"mcp_config"`
}

// start is a command.
type start struct {
	Command   string            `json:"command"`
	Args      []string          `json:"args"`
	Env       map[string]string `json:"env"`
	Overrides map[string]start  `json:"platform_overrides"`
}

// Option is a value that whoever uses the server gives.
type Option struct {
	Type        string          `json:"type"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Required    bool            `json:"required"`
	Default     json.RawMessage `json:"default"`
	Multiple    bool            `json:"multiple"`
	Sensitive   bool            `json:"sensitive"`
	Min         *float64        `json:"min"`
	Max         *float64        `json:"max"`
}

// members are the members that objects of a manifest may have.
var members = map[string][]string{
	"": {"$schema", "dxt_version", "manifest_version", "name", "display_name", "version", "description", "long_description", "author", "repository", "homepage", "documentation", "support", "icon", "icons",
		"screenshots", "localization", "server", "tools", "tools_generated", "prompts", "prompts_generated", "keywords", "license", "privacy_policies", "compatibility", "user_config", "_meta"},
	"server":     {"type", "entry_point", "mcp_config"},
	"mcp_config": {"command", "args", "env", "platform_overrides"},
	"override":   {"command", "args", "env"},
	"option":     {"type", "title", "description", "required", "default", "multiple", "sensitive", "min", "max"},
}

// ParseManifest reads a manifest of at most 1 MiB. A member that the specification does not have is an error: what it means is not known.
func ParseManifest(data []byte) (*Manifest, error) {
	switch {
	case len(data) > maxManifest:
		return nil, fmt.Errorf("it has more than %d bytes", maxManifest)
	case !utf8.Valid(data):
		return nil, errors.New("it is no UTF-8")
	case imported.Nested(data) > maxNested || !json.Valid(data):
		return nil, errors.New("it is no JSON, or nested too deep")
	}
	m := new(Manifest)
	if err := strict(data); err != nil {
		return nil, err
	}
	if json.Unmarshal(data, m) != nil {
		return nil, errors.New("a member is not of the type that the specification says")
	}
	m.options = slices.Sorted(maps.Keys(m.UserConfig))
	return m, m.check()
}

// strict returns an error if an object has a member that it should not have. The version comes first: another one has other members.
func strict(data []byte) error {
	top, err := object(data, "")
	if err != nil && top == nil {
		return err
	}
	if wrong := version(top); wrong != nil {
		return wrong
	}
	if err != nil {
		return err
	}
	server, err := object(top["server"], "server")
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	if raw, is := server["mcp_config"]; is {
		config, err := object(raw, "mcp_config")
		if err != nil {
			return fmt.Errorf("server.mcp_config: %w", err)
		}
		if err := each(config["platform_overrides"], "override"); err != nil {
			return fmt.Errorf("server.mcp_config.platform_overrides: %w", err)
		}
	}
	if err := each(top["user_config"], "option"); err != nil {
		return fmt.Errorf("user_config: %w", err)
	}
	return nil
}

// version returns an error unless a manifest has a version that is known.
func version(top map[string]json.RawMessage) error {
	raw := top["manifest_version"]
	if raw == nil {
		raw = top["dxt_version"]
	}
	var text string
	if raw == nil || json.Unmarshal(raw, &text) != nil {
		return errors.New("it says no manifest_version")
	}
	if !slices.Contains(versions, text) {
		return fmt.Errorf("its manifest_version %q is not known; known are %s", wire.Shown(text), strings.Join(versions, " and "))
	}
	return nil
}

// object returns the members of an object of a kind. If it has others, both the members and an error are returned.
func object(raw json.RawMessage, kind string) (map[string]json.RawMessage, error) {
	var all map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &all) != nil || all == nil {
		return nil, errors.New("it is no object")
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !slices.Contains(members[kind], name) {
			return all, fmt.Errorf("the member %q is not known", wire.Shown(name))
		}
	}
	return all, nil
}

// each checks the members of an object, which are objects of a kind.
func each(raw json.RawMessage, kind string) error {
	if raw == nil {
		return nil
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return errors.New("it is no object")
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if _, err := object(all[name], kind); err != nil {
			return fmt.Errorf("%s: %w", wire.Shown(name), err)
		}
	}
	return nil
}

// check returns an error if a rule of the specification is broken on which the use of the bundle relies.
func (m *Manifest) check() error {
	types := []string{Node, Python, Binary}
	if m.Format == "0.4" || m.Former == "0.4" {
		types = append(types, UV)
	}
	s := &m.Server
	switch {
	case m.Name == "" || m.Version == "" || m.Description == "" || m.Author.Name == "":
		return errors.New("name, version, description or author.name is missing")
	case max(len(m.Name), len(m.Version), len(m.Description)) > maxText:
		return fmt.Errorf("a text has more than %d bytes", maxText)
	case !slices.Contains(types, s.Type):
		return fmt.Errorf("server.type %q is not known; known are %s", wire.Shown(s.Type), strings.Join(types, ", "))
	case badPath(path.Clean(s.EntryPoint)) != "":
		return fmt.Errorf("server.entry_point %q %s", wire.Shown(s.EntryPoint), badPath(path.Clean(s.EntryPoint)))
	case s.Config == nil && s.Type != UV:
		return errors.New("server.mcp_config is missing")
	case len(m.UserConfig) > maxOptions:
		return fmt.Errorf("user_config has more than %d options", maxOptions)
	}
	if s.Config != nil {
		if err := s.Config.check(); err != nil {
			return fmt.Errorf("server.mcp_config: %w", err)
		}
		for _, platform := range slices.Sorted(maps.Keys(s.Config.Overrides)) {
			one := s.Config.Overrides[platform]
			if one.Command == "" {
				one.Command = s.Config.Command
			}
			if err := one.check(); err != nil {
				return fmt.Errorf("server.mcp_config.platform_overrides.%s: %w", wire.Shown(platform), err)
			}
		}
	}
	for _, name := range m.options {
		if err := m.checkOption(name); err != nil {
			return fmt.Errorf("user_config.%s: %w", wire.Shown(name), err)
		}
	}
	return nil
}

func (c *start) check() error {
	switch {
	case strings.TrimSpace(c.Command) == "":
		return errors.New("command is missing")
	case len(c.Args) > maxArgs || len(c.Env) > maxArgs:
		return fmt.Errorf("it has more than %d arguments or variables", maxArgs)
	}
	for _, text := range slices.Concat([]string{c.Command}, c.Args, slices.Collect(maps.Values(c.Env))) {
		if len(text) > maxText || value.HasControl(text) {
			return errors.New("a text is too long, or has control characters")
		}
	}
	for name := range c.Env {
		if !value.IsVariable(name) {
			return fmt.Errorf("%q is no name of a variable", wire.Shown(name))
		}
	}
	return nil
}

var (
	optionName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)
	kinds      = map[string]imported.Kind{"string": imported.String, "number": imported.Number, "boolean": imported.Boolean, "directory": imported.Directory, "file": imported.File}
)

// checkOption checks an option and its default.
func (m *Manifest) checkOption(name string) error {
	o := m.UserConfig[name]
	kind, known := kinds[o.Type]
	switch {
	case !optionName.MatchString(name):
		return errors.New("its name is not allowed: letters, digits, hyphens and underscores")
	case !known:
		return fmt.Errorf("its type %q is not known", wire.Shown(o.Type))
	case o.Title == "" || o.Description == "":
		return errors.New("title or description is missing")
	case o.Multiple && kind != imported.Directory && kind != imported.File:
		return errors.New("multiple is for files and directories only")
	case o.Sensitive && kind != imported.String:
		return errors.New("sensitive is for strings only")
	case (o.Min != nil || o.Max != nil) && kind != imported.Number:
		return errors.New("min and max are for numbers only")
	}
	if _, err := o.defaults(); err != nil {
		return err
	}
	return nil
}

// defaults returns the default as texts; nil if there is none.
func (o *Option) defaults() ([]string, error) {
	if len(o.Default) == 0 || string(o.Default) == "null" {
		return nil, nil
	}
	var text string
	var number float64
	var truth bool
	var list []string
	kind := kinds[o.Type]
	switch {
	case kind == imported.Number && json.Unmarshal(o.Default, &number) == nil:
		return []string{strconv.FormatFloat(number, 'f', -1, 64)}, nil
	case kind == imported.Boolean && json.Unmarshal(o.Default, &truth) == nil:
		return []string{strconv.FormatBool(truth)}, nil
	case kind != imported.Number && kind != imported.Boolean && json.Unmarshal(o.Default, &text) == nil && o.Default[0] == '"':
		if text == "" {
			return nil, nil
		}
		return []string{text}, nil
	case o.Multiple && json.Unmarshal(o.Default, &list) == nil:
		return list, nil
	}
	return nil, errors.New("its default is not of its type")
}
