package value

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// SourceKind says where a value came from. A higher kind takes precedence.
type SourceKind int

// The layers, in the order of precedence, the lowest first.
const (
	FromDefault SourceKind = iota
	FromFile
	FromSharedEnv // MCP_…, a name that other programs use too
	FromEnv       // DRAGOMAN_…
	FromFlag      // a flag, the URL or the COMMAND
)

// String returns the kind's name in `config print --json`.
func (k SourceKind) String() string {
	return [...]string{"default", "file", "environment", "environment", "flag"}[k]
}

// Source is where one value came from.
type Source struct {
	Kind SourceKind
	Name string // the file, the environment variable or the flag; "" for a default
	Line int    // in the file, from 1; else 0
}

// String returns "default", "config.toml:12", "DRAGOMAN_LISTEN" or "--listen".
func (s Source) String() string {
	switch {
	case s.Kind == FromDefault:
		return "default"
	case s.Line > 0:
		return fmt.Sprintf("%s:%d", s.Name, s.Line)
	default:
		return s.Name
	}
}

// Set reports whether a user gave the value, rather than the default table.
func (s Source) Set() bool { return s.Kind != FromDefault }

// ConfigError is one error in the configuration. It never holds a secret value.
type ConfigError struct {
	Source  Source
	Key     string // "" if it concerns the file as a whole
	Problem string // what is wrong
	Fix     string // what to write instead
}

// Error returns one line: place, key, problem, fix.
func (e *ConfigError) Error() string {
	var parts []string
	if e.Source.Set() {
		parts = append(parts, e.Source.String())
	}
	if e.Key != "" && e.Source.Kind <= FromFile { // a flag's or a variable's name says the key
		parts = append(parts, e.Key)
	}
	return WithFix(strings.Join(append(parts, e.Problem), ": "), e.Fix)
}

// WithFix appends the fix of an error to its text: a question as it is, an instruction after "fix:".
func WithFix(text, fix string) string {
	switch {
	case fix == "":
		return text
	case strings.HasSuffix(fix, "?"):
		return text + "; " + fix
	default:
		return text + "; fix: " + fix
	}
}

// ConfigErrors holds all errors in the configuration, in the order of the layers and of the lines in the file. It is
// never empty.
type ConfigErrors []*ConfigError

// Error returns a line for each error, under a heading if there are several.
func (es ConfigErrors) Error() string {
	if len(es) == 1 {
		return es[0].Error()
	}
	lines := make([]string, 0, len(es)+1)
	lines = append(lines, fmt.Sprintf("the configuration has %d errors:", len(es)))
	for _, e := range es {
		lines = append(lines, "  "+e.Error())
	}
	return strings.Join(lines, "\n")
}

// OnCommandLine reports whether any of the errors is in the command line. That is a usage error rather than a bad file.
func (es ConfigErrors) OnCommandLine() bool {
	return slices.ContainsFunc(es, func(e *ConfigError) bool { return e.Source.Kind == FromFlag })
}

// Problem is an error of a single value with its own fix. The caller adds key and place.
type Problem struct{ What, Fix string }

func (p *Problem) Error() string { return p.What }

// Problemf returns a problem without a fix of its own: the caller says what is allowed.
func Problemf(format string, args ...any) error {
	return &Problem{What: fmt.Sprintf(format, args...)}
}

// AsConfigError adds key and place to the error of a value. Without a fix of its own, the fix is to write what is
// allowed.
func AsConfigError(err error, key string, from Source, allowed string) *ConfigError {
	ce := &ConfigError{Source: from, Key: key, Problem: err.Error()}
	var p *Problem
	if errors.As(err, &p) {
		ce.Fix = p.Fix
	}
	if ce.Fix == "" && allowed != "" {
		ce.Fix = "write " + allowed
	}
	return ce
}

// SortErrors sorts by layer, then by line. Errors at equal places keep their order.
func SortErrors(es ConfigErrors) {
	slices.SortStableFunc(es, func(a, b *ConfigError) int {
		return cmp.Or(cmp.Compare(a.Source.Kind, b.Source.Kind), cmp.Compare(a.Source.Line, b.Source.Line))
	})
}
