package report

import (
	"cmp"
	"encoding/base64"
	"net/url"
	"slices"
	"strings"

	"github.com/goccy/go-json"
)

// hidden replaces a secret.
const hidden = "(hidden)"

// leastHidden is the minimum length of a secret: a report without any "1" or "true" would be unreadable.
const leastHidden = 6

// Hide holds secrets that no report may show, even if a server repeats them.
type Hide struct {
	Values []string // of header fields that every request carries
	URLs   []string // of targets: their passwords and the values of their queries
}

// replacer removes secrets from texts: as they are, escaped as in JSON and in URLs, and the credential of "Bearer credential" alone.
func (h Hide) replacer() *strings.Replacer {
	var secrets []string
	add := func(value string) {
		if len(value) < leastHidden {
			return
		}
		secrets = append(secrets, value, url.QueryEscape(value), url.PathEscape(value))
		if quoted, err := json.Marshal(value); err == nil {
			secrets = append(secrets, strings.Trim(string(quoted), `"`))
		}
	}
	for _, value := range h.Values {
		add(value)
		if _, credential, ok := strings.Cut(value, " "); ok {
			add(strings.TrimSpace(credential))
		}
	}
	for _, raw := range h.URLs {
		u, err := url.Parse(raw)
		if err != nil {
			add(raw)
			continue
		}
		if password, set := u.User.Password(); set {
			add(password)
			add(u.User.String())
			add(base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password)))
		}
		add(u.RawQuery)
		for _, values := range u.Query() {
			for _, value := range values {
				add(value)
			}
		}
	}
	// The longest first: one may be a part of another.
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	secrets = slices.Compact(secrets)
	var pairs []string
	for _, s := range secrets {
		pairs = append(pairs, s, hidden)
	}
	return strings.NewReplacer(pairs...)
}

func hideAll(hide *strings.Replacer, texts []string) (out []string) {
	for _, text := range texts {
		out = append(out, hide.Replace(text))
	}
	return out
}

// Arguments returns a command for a report, without the values of flags whose names suggest secrets (--api-key X, --token=X).
func Arguments(argv []string) string {
	var out []string
	hideNext := false
	for _, a := range argv {
		name, value, assigned := strings.Cut(a, "=")
		switch {
		case hideNext && !strings.HasPrefix(a, "-"):
			a = hidden
		case assigned && value != "" && secretive(name):
			a = name + "=" + hidden
		}
		hideNext = !assigned && strings.HasPrefix(name, "-") && secretive(name)
		out = append(out, a)
	}
	return strings.Join(out, " ")
}

func secretive(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"key", "token", "secret", "password", "passwd", "credential", "auth"}, func(word string) bool { return strings.Contains(name, word) })
}

// Text returns a text without secrets.
func (h Hide) Text(text string) string { return h.replacer().Replace(text) }
