// Package source finds the tools that code is generated for: those of the services of a services.yaml (seed 000, ServiceRegistry), asked over HTTP.
package source

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"

	"github.com/goccy/go-yaml"

	"dragoman/proxy/wire"
)

// Entry is a service of a services.yaml.
type Entry struct {
	Name     string `yaml:"name"`
	URL      string `yaml:"url"`
	Enabled  *bool  `yaml:"enabled"`   // nil: it is
	TokenEnv string `yaml:"token_env"` // the variable with the bearer token, here and in what is generated; empty: MCP_TOKEN_NAME
}

// On reports whether code is generated for the service.
func (e *Entry) On() bool { return e.Enabled == nil || *e.Enabled }

const (
	maxRegistry = 1 << 20
	maxEntries  = 10_000
)

var (
	serviceName  = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`) // seed 000, ServiceConfiguration
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// CheckName says what is wrong with the name of a service; nil: nothing.
func CheckName(name string) error {
	if !serviceName.MatchString(name) {
		return fmt.Errorf("\"%s\" is no name of a service; fix: use lower-case letters, digits and hyphens, a letter first, at most 63", wire.Shown(name))
	}
	return nil
}

// CheckVariable says what is wrong with the name of an environment variable; nil: nothing.
func CheckVariable(name string) error {
	if !variableName.MatchString(name) {
		return fmt.Errorf("\"%s\" is no name of an environment variable; fix: use letters, digits and underscores", wire.Shown(name))
	}
	return nil
}

// Registry reads a services.yaml of at most 1 MiB. It fails at the first service that breaks a rule.
func Registry(file string) ([]Entry, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxRegistry+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxRegistry {
		return nil, fmt.Errorf("%s has more than %d bytes", file, maxRegistry)
	}
	all, err := parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return all, nil
}

func parse(raw []byte) ([]Entry, error) {
	var file struct {
		Services []Entry `yaml:"services"`
	}
	if err := yaml.UnmarshalWithOptions(raw, &file, yaml.Strict()); err != nil {
		return nil, errors.New(yaml.FormatError(err, false, true))
	}
	if len(file.Services) == 0 {
		return nil, errors.New("it names no service; fix: write services:, and below it - name: NAME and url: URL")
	}
	if len(file.Services) > maxEntries {
		return nil, fmt.Errorf("it names more than %d services", maxEntries)
	}
	seen := map[string]bool{}
	for i := range file.Services {
		e := &file.Services[i]
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("services[%d]: %w", i, err)
		}
		if seen[e.Name] {
			return nil, fmt.Errorf("services[%d]: a service before it is named %s; fix: names must differ", i, e.Name)
		}
		seen[e.Name] = true
	}
	return file.Services, nil
}

func (e *Entry) check() error {
	if err := CheckName(e.Name); err != nil {
		return err
	}
	if e.TokenEnv != "" {
		if err := CheckVariable(e.TokenEnv); err != nil {
			return fmt.Errorf("token_env: %w", err)
		}
	}
	return CheckURL(e.URL)
}

// CheckURL says what is wrong with the base address of a service; nil: nothing.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("\"%s\" is no address of a service; fix: write http://HOST:PORT", wire.Shown(text))
	case u.User != nil:
		return errors.New("the address has credentials, which would be in every generated file; fix: put a token into an environment variable")
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("\"%s\" has a query or a fragment; fix: write the address that /tools is below", wire.Shown(text))
	}
	return nil
}
