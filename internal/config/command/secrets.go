package command

import (
	"net/url"
	"slices"
	"strings"

	"dragoman/internal/config/value"
)

// Secret is an argument that holds a secret.
type Secret struct {
	At   int    // its index
	What string // what holds it, without the secret
}

// Secrets returns the arguments of a program that hold a secret by their form: a value of an option, a variable or a header whose name says
// so, a token that its beginning gives away, a password or a key in a URL. Everybody on the machine sees arguments, and so do readers of the
// configuration. References such as $TOKEN, which the program resolves, are none.
func Secrets(args []string) (all []Secret) {
	for i, arg := range args {
		if what := secretIn(arg); what != "" {
			all = append(all, Secret{i, what})
		} else if i > 0 && isOption(args[i-1]) && secretName(args[i-1]) && !strings.HasPrefix(arg, "-") && literal(arg) {
			all = append(all, Secret{i, "the value of " + value.Shorten(args[i-1])})
		}
	}
	return all
}

func isOption(arg string) bool { return strings.HasPrefix(arg, "-") && !strings.Contains(arg, "=") }

var (
	assigned  = lazily(`^-{0,2}([A-Za-z][A-Za-z0-9_.-]*)=(.*)$`)
	field     = lazily(`^([A-Za-z][A-Za-z0-9_-]*):\s*(.*)$`)
	scheme    = lazily(`(?i)\b(?:bearer|basic)\s+[^\s$%{<]*[0-9=._-]\S*`)
	giveaways = lazily(`\b(?:gh[opsur]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}|sk-[A-Za-z0-9_-]{16,}|xox[abeprs]-[A-Za-z0-9-]{8,}|AKIA[0-9A-Z]{16}|npm_[A-Za-z0-9]{30,}|drg_[A-Za-z0-9_-]{16,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})|-----BEGIN `)
	address   = lazily(`[A-Za-z][A-Za-z0-9+.-]*://\S+`)
)

// secretIn says what of an argument alone holds a secret; empty: nothing does.
func secretIn(arg string) string {
	if m := assigned().FindStringSubmatch(arg); m != nil && secretName(m[1]) && literal(m[2]) {
		name, _, _ := strings.Cut(arg, "=")
		return "the value of " + value.Shorten(name)
	} else if m != nil && assigned().MatchString(m[2]) { // as --env=NAME=VALUE
		return secretIn(m[2])
	}
	if m := field().FindStringSubmatch(arg); m != nil && (secretName(m[1]) || strings.EqualFold(m[1], "authorization")) && literal(m[2]) && !strings.ContainsAny(m[2], "$%{") {
		return "the header " + value.Shorten(m[1])
	}
	switch {
	case scheme().MatchString(arg):
		return "a credential for HTTP"
	case giveaways().MatchString(arg):
		return "a token"
	}
	for _, text := range address().FindAllString(arg, -1) {
		u, err := url.Parse(text)
		if err != nil {
			continue
		}
		if password, is := u.User.Password(); is && literal(password) {
			return "the password of a URL"
		}
		for name, values := range u.Query() {
			if secretName(name) && slices.ContainsFunc(values, literal) {
				return "the parameter " + value.Shorten(name) + " of a URL"
			}
		}
	}
	return ""
}

// literal reports whether a value stands for itself.
func literal(text string) bool {
	return text != "" && !strings.HasPrefix(text, "//") && !strings.HasPrefix(text, "$") && !strings.HasPrefix(text, "%") && !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "<") && !value.Refers(text)
}

var (
	secretWords  = []string{"token", "secret", "password", "passwd", "pwd", "apikey", "accesskey", "secretkey", "privatekey", "authtoken", "accesstoken", "apitoken", "credential", "credentials", "pat", "bearer"}
	keyWords     = []string{"api", "access", "secret", "private", "auth", "account", "subscription", "master", "service"}
	wordsOfNames = lazily(`[A-Za-z0-9]+`)
)

// secretName reports whether the name of an option, a variable, a header or a parameter says that its value is a secret.
func secretName(name string) bool {
	words := wordsOfNames().FindAllString(strings.ToLower(name), -1)
	if len(words) == 0 {
		return false
	}
	last := words[len(words)-1]
	return slices.Contains(secretWords, last) || last == "key" && len(words) > 1 && slices.Contains(keyWords, words[len(words)-2])
}

// Shown returns arguments as they may be shown: without those that hold secrets, and without what a URL has besides its address.
func Shown(args []string) []string {
	shown := make([]string, len(args))
	for i, arg := range args {
		shown[i] = address().ReplaceAllStringFunc(arg, value.RedactURL)
	}
	for _, s := range Secrets(args) {
		name, _, joined := strings.Cut(args[s.At], "=")
		if shown[s.At] = value.Hidden; joined && assigned().MatchString(args[s.At]) {
			shown[s.At] = name + "=" + value.Hidden
		}
	}
	return shown
}
