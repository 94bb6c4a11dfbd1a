// Package redact hides known secret values in text that others have written: what a child prints, what a server answers.
package redact

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Hidden stands for a secret value.
const Hidden = "(hidden)"

const (
	// least is the length from which a value counts as a secret, in bytes. Shorter ones occur in any text.
	least = 6
	// leastPart is the length from which the beginning of a secret at the end of a text is hidden, in bytes.
	leastPart = 4
)

// Secrets are the values to hide, in the forms in which programs print them. A nil Secrets hides nothing. It is immutable.
type Secrets struct {
	forms    []string // the longest first
	replacer *strings.Replacer
}

// New returns the Secrets of the given values: variables and header fields. Values of less than six bytes are not hidden. Of a
// header field its credentials alone count too, of a URL its password, and of a text of several lines each line.
func New(values ...string) *Secrets {
	var forms []string
	add := func(v string) {
		if v = strings.TrimSpace(v); len(v) >= least && !slices.Contains(forms, v) {
			forms = append(forms, v)
		}
	}
	for _, v := range values {
		for _, part := range parts(v) {
			add(part)
			add(url.QueryEscape(part))
			add(url.PathEscape(part))
			quoted := strconv.Quote(part) // as JSON and shells do it
			add(quoted[1 : len(quoted)-1])
		}
	}
	if len(forms) == 0 {
		return nil
	}
	slices.SortStableFunc(forms, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(forms))
	for _, f := range forms {
		pairs = append(pairs, f, Hidden)
	}
	return &Secrets{forms, strings.NewReplacer(pairs...)}
}

// parts returns a value and what in it is secret by itself.
func parts(v string) []string {
	all := []string{v}
	if lines := strings.FieldsFunc(v, func(r rune) bool { return r == '\n' || r == '\r' }); len(lines) > 1 {
		all = append(all, lines...)
	}
	if scheme, token, ok := strings.Cut(strings.TrimSpace(v), " "); ok && !strings.ContainsAny(token, " \n") { // RFC 9110, 11.4
		all = append(all, token)
		if raw, err := base64.StdEncoding.DecodeString(token); err == nil && strings.EqualFold(scheme, "Basic") {
			_, password, _ := strings.Cut(string(raw), ":")
			all = append(all, string(raw), password)
		}
	}
	if u, err := url.Parse(v); err == nil && u.User != nil {
		if password, ok := u.User.Password(); ok {
			all = append(all, password)
		}
	}
	return all
}

// Whole returns text, of which nothing is cut off, with each secret replaced by [Hidden].
func (s *Secrets) Whole(text string) string {
	if s == nil || !slices.ContainsFunc(s.forms, func(f string) bool { return strings.Contains(text, f) }) {
		return text
	}
	return s.replacer.Replace(text)
}

// Hide is Whole for a text whose end may have been cut off: the beginning of a secret at the end is hidden too.
func (s *Secrets) Hide(text string) string {
	if s == nil {
		return text
	}
	text = s.Whole(text)
	for _, f := range s.forms {
		for n := min(len(f)-1, len(text)); n >= leastPart; n-- {
			if strings.HasSuffix(text, f[:n]) {
				return text[:len(text)-n] + Hidden
			}
		}
	}
	return text
}
