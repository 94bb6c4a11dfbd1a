package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"dragoman/adapters/oauth"
	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
)

// Keys, values and bounds of the settings for authentication.
const (
	anonymousNever    = "never"
	AnonymousLoopback = "loopback"
	keysFileKey       = "security.api_keys_file"
)

func newAPIKey(name string) (*APIKey, error) {
	if err := checkKeyName(name); err != nil {
		return nil, err
	}
	return &APIKey{Name: name}, nil
}

func apiKeyParts(k *APIKey) []setting {
	return []setting{
		{key: "hashes", doc: "SHA-256 hashes of the keys", field: hashList(&k.Hashes)},
		{key: scopesKey, doc: "scopes of the keys", field: field.List{At: &k.Scopes, Check: checkScope, What: "a list of scopes", Most: maxScope}},
		{key: "expires", doc: "when the keys expire", field: field.Time{At: &k.Expires}},
		{key: "principal", doc: "principal of the caller; default: the name of the entry", field: field.Text{At: &k.Principal, Most: 4 * maxName, What: "text", Empty: true}},
		{key: "rate_limit", std: "0", doc: "most requests of the principal in a minute, in the place of security.rate_limit", field: field.Int{At: &k.Rate, Least: 1, Most: math.MaxInt32, Zero: "that of all clients"}},
	}
}

func checkAlgorithm(item string) error {
	if !slices.Contains(oauth.Algorithms(), item) {
		return &value.Problem{What: value.Quote(value.Shorten(item)) + " is not a signature that anybody but the issuer could not make", Fix: "write " + value.OneOf(oauth.Algorithms())}
	}
	return nil
}

// newScopeRule returns the rule about a tool, prompt, resource or method.
func newScopeRule(about string) (*ScopeRule, error) {
	kind, name, _ := strings.Cut(about, ":")
	if star := strings.IndexByte(name, '*'); !slices.Contains([]string{"tool", "prompt", "resource", "method"}, kind) || name == "" || star >= 0 && star < len(name)-1 {
		return nil, &value.Problem{What: value.Quote(value.Shorten(about)) + " does not say what needs scopes", Fix: `write "tool:NAME", "prompt:NAME", "resource:URI" or "method:NAME", with a * at the end for all that begin so`}
	}
	return &ScopeRule{About: about}, nil
}

func newTool(name string) (*ToolConfig, error) {
	return &ToolConfig{Name: name, Timeout: unsetTime, Enabled: true}, checkPattern(name, "a name")
}

func newGrant(principal string) (*GrantConfig, error) {
	if principal == "" {
		return nil, &value.Problem{What: "has no name", Fix: "write the principal's, or * for everybody who has no entry of his own"}
	}
	return &GrantConfig{Principal: principal}, nil
}

// renameField returns the field for what clients call something of the server's.
func renameField(at *string, name string) field.Field {
	return field.Text{At: at, What: "a name; of one that ends in *, another that does", Empty: true, Check: func(text string) error {
		begin, star := strings.CutSuffix(text, "*")
		if strings.Contains(begin, "*") || star != strings.HasSuffix(name, "*") {
			return value.Problemf("%q: either both names end in *, or neither has one", value.Shorten(text))
		}
		return nil
	}}
}

// checkGrants warns of rights of principals that no API key has, where there are no credentials but keys. It is no error,
// since keys may come and go in a file of their own.
func (l *loader) checkGrants() {
	c := l.cfg
	if c.Security.Auth.JWT.Issuer != "" || c.TLS.ClientAuth != ClientAuthNone {
		return
	}
	var known []string
	for _, k := range c.Security.Auth.Keys {
		known = append(known, cmp.Or(k.Principal, k.Name))
	}
	for _, u := range c.Upstreams {
		for _, g := range u.Access {
			if g.Principal == "*" || slices.Contains(known, g.Principal) {
				continue
			}
			fix := "give a key this name or principal, or remove the entry"
			if near := value.Nearest(g.Principal, known); near != "" {
				fix = fmt.Sprintf("did you mean %s?", near)
			}
			l.warn("%s.%s.%s.%s is about a principal that no API key has, so it binds nobody; %s", UpstreamsKey, u.Name, accessKey, value.KeyPart(g.Principal), fix)
		}
	}
}
