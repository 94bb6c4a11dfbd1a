package config

import (
	"slices"
	"strings"

	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
)

// loader fills one Config, layer by layer.
type loader struct {
	cfg      *Config
	settings []setting[Config]
	below    []setting[Upstream]
	environ  []string
	errs     value.ConfigErrors
	unknown  [][]string        // tables already reported; their keys are not
	written  map[string]writer // what the current layer wrote, by cell
}

// writer is what wrote a cell in the current layer.
type writer struct {
	key    string
	source value.Source
	text   string
	secret bool
}

// standard sets a default. A test sets all of them, so an error is a bug in the table and is reported as one.
func (l *loader) standard(f field.Field, key, std string) {
	if err := f.Set(value.Word(std)); err != nil && std != "" {
		l.errs = append(l.errs, &value.ConfigError{Key: key, Problem: "BUG: the default " + err.Error()})
	}
}

func (l *loader) beginLayer() { l.written = map[string]writer{} }

func (l *loader) fail(err error, key string, from value.Source, allowed string) {
	l.errs = append(l.errs, value.AsConfigError(err, key, from, allowed))
}

// resolve returns the value that a secret refers to.
func (l *loader) resolve(text string) (string, error) {
	if path, ok := strings.CutPrefix(text, "file:"); ok {
		l.cfg.secretFiles = append(l.cfg.secretFiles, path)
	}
	return value.ResolveSecret(text, l.lookup)
}

// lookup returns a variable of the given environment.
func (l *loader) lookup(name string) (string, bool) {
	for _, pair := range slices.Backward(l.environ) {
		if k, v, ok := strings.Cut(pair, "="); ok && k == name {
			return v, true
		}
	}
	return "", false
}

// reported reports whether there is an error for something below a key already.
func (l *loader) reported(table string) bool {
	for _, e := range l.errs {
		if strings.HasPrefix(e.Key, table+".") {
			return true
		}
	}
	return false
}
