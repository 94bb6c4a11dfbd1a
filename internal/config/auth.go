package config

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"dragoman/adapters/oauth"
	"dragoman/internal/config/field"
	"dragoman/internal/config/source"
	"dragoman/internal/config/value"
)

// Keys, values and bounds of the settings for authentication.
const (
	anonymousNever    = "never"
	AnonymousLoopback = "loopback"
	keysFileKey       = "security.api_keys_file"
	jwtTable          = "security.jwt."
	maxScope          = 256 // bytes of one scope, and scopes of one list
)

// authKeys returns the keys that say who is let in.
func authKeys() []setting[Config] {
	return append([]setting[Config]{
		{Key: apiKeysKey, std: "false", doc: "require API keys", field: func(c *Config) field.Field { return field.Bool{At: &c.Security.APIKeysEnabled} }},
		{Key: "security.api_keys", doc: "API keys, one table each: hashes (of `dragoman key new`), scopes, expires, principal", open: true,
			parts: partsOf(findAPIKey, apiKeyParts),
			names: func(c *Config) []string {
				names := make([]string, 0, len(c.Security.Auth.Keys))
				for _, k := range c.Security.Auth.Keys {
					names = append(names, k.Name)
				}
				return names
			}},
		{Key: keysFileKey, std: "", doc: "file of further API keys, each a table with the key's name",
			field: func(c *Config) field.Field {
				return field.Text{At: &c.Security.Auth.KeysFile, What: "a TOML, YAML or JSON file", Empty: true}
			}},
		{Key: "security.anonymous", std: anonymousNever, doc: "which callers need no credential although others do",
			field: func(c *Config) field.Field {
				return field.Enum{At: &c.Security.Auth.Anonymous, Values: []string{anonymousNever, AnonymousLoopback}}
			}},
	}, jwtKeys()...)
}

func jwtKeys() []setting[Config] {
	text := func(at func(*JWTConfig) *string, what string) func(*Config) field.Field {
		return func(c *Config) field.Field { return field.Text{At: at(&c.Security.Auth.JWT), What: what, Empty: true} }
	}
	link := func(at func(*JWTConfig) *string) func(*Config) field.Field {
		return func(c *Config) field.Field { return field.Link{At: at(&c.Security.Auth.JWT)} }
	}
	list := func(at func(*JWTConfig) *[]string, check func(string) error, what string) func(*Config) field.Field {
		return func(c *Config) field.Field {
			return field.List{At: at(&c.Security.Auth.JWT), Check: check, What: what, Most: maxScope, Commas: true}
		}
	}
	span := func(at func(*JWTConfig) *time.Duration, least, most time.Duration, zero string) func(*Config) field.Field {
		return func(c *Config) field.Field {
			return field.Duration{At: at(&c.Security.Auth.JWT), Least: least, Most: most, Zero: zero}
		}
	}
	return []setting[Config]{
		{Key: jwtTable + "issuer", std: "", doc: "authorization server whose bearer tokens are accepted", field: link(func(j *JWTConfig) *string { return &j.Issuer })},
		{Key: jwtTable + "resource", std: "", doc: "URL of the main listener as clients know it, without /mcp", field: link(func(j *JWTConfig) *string { return &j.Resource })},
		{Key: jwtTable + "audience", std: "", doc: "accepted values of a token's aud; default: resource, and the MCP paths below it",
			field: list(func(j *JWTConfig) *[]string { return &j.Audience }, field.CheckArgument, "a list of audiences")},
		{Key: jwtTable + "jwks_url", std: "", doc: "URL of the issuer's keys; default: the one in its metadata", field: link(func(j *JWTConfig) *string { return &j.JWKSURL })},
		{Key: jwtTable + "jwks_file", std: "", doc: "file of the issuer's keys (RFC 7517), instead of a URL", field: text(func(j *JWTConfig) *string { return &j.JWKSFile }, "a file")},
		{Key: jwtTable + "ca_file", std: "", doc: "PEM file of the roots to trust for the issuer instead of the system's", field: text(func(j *JWTConfig) *string { return &j.CAFile }, "a PEM file")},
		{Key: jwtTable + "algorithms", std: strings.Join(oauth.Algorithms(), ","), doc: "accepted signature algorithms",
			field: func(c *Config) field.Field {
				return field.List{At: &c.Security.Auth.JWT.Algorithms, Check: checkAlgorithm, What: "a list of " + value.OneOf(oauth.Algorithms()), Most: maxScope, Commas: true, Words: oauth.Algorithms()}
			}},
		{Key: jwtTable + "types", std: "at+jwt,jwt", doc: "accepted values of a token's typ; jwt also accepts tokens without one",
			field: list(func(j *JWTConfig) *[]string { return &j.Types }, field.CheckArgument, "a list of media types without application/")},
		{Key: jwtTable + ScopesKey, std: "", doc: "scopes that every token must have", field: list(func(j *JWTConfig) *[]string { return &j.Scopes }, checkScope, "a list of scopes")},
		{Key: jwtTable + "principal_claim", std: "sub", doc: "claim that names the caller",
			field: func(c *Config) field.Field {
				return field.Text{At: &c.Security.Auth.JWT.PrincipalClaim, Most: maxName, What: "the name of a claim"}
			}},
		{Key: jwtTable + "leeway", std: "30s", doc: "tolerated difference of clocks", field: span(func(j *JWTConfig) *time.Duration { return &j.Leeway }, time.Second, 5*time.Minute, "not at all")},
		{Key: jwtTable + "jwks_ttl", std: "10m", doc: "time after which the issuer's keys are fetched again", field: span(func(j *JWTConfig) *time.Duration { return &j.JWKSTTL }, 10*time.Second, day, "")},
		{Key: jwtTable + "jwks_stale", std: "1h", doc: "how long the old keys stay valid after that while the fetch fails", field: span(func(j *JWTConfig) *time.Duration { return &j.JWKSStale }, time.Second, 7*day, "not at all")},
	}
}

// accessKeys returns the keys of an upstream for scopes and for Dragoman's own credentials.
func accessKeys() []setting[Upstream] {
	text := func(at func(*OAuthConfig) *string) func(*Upstream) field.Field {
		return func(u *Upstream) field.Field { return field.Text{At: at(&u.OAuth), What: "text", Empty: true} }
	}
	return []setting[Upstream]{
		{Key: ScopesKey, doc: "scopes that a caller needs, by tool:NAME, prompt:NAME, resource:URI or method:NAME; a trailing * stands for any ending", open: true, entry: scopeEntry},
		{Key: "oauth.token_url", std: "", doc: "token endpoint at which Dragoman gets tokens for the upstream, by client credentials", needs: UrlKey,
			field: func(u *Upstream) field.Field { return field.Link{At: &u.OAuth.TokenURL} }},
		{Key: "oauth.client_id", std: "", doc: "Dragoman's client id there", needs: UrlKey, field: text(func(o *OAuthConfig) *string { return &o.ClientID })},
		{Key: "oauth.client_secret", std: "", doc: "Dragoman's client secret there", needs: UrlKey, secret: true,
			field: func(u *Upstream) field.Field { return field.Key{At: &u.OAuth.ClientSecret} }},
		{Key: "oauth.client_auth", std: "basic", doc: "where id and secret are sent: in a header, or in the body", needs: UrlKey,
			field: func(u *Upstream) field.Field {
				return field.Enum{At: &u.OAuth.ClientAuth, Values: []string{"basic", "post"}}
			}},
		{Key: "oauth.scopes", std: "", doc: "requested scopes", needs: UrlKey,
			field: func(u *Upstream) field.Field {
				return field.List{At: &u.OAuth.Scopes, Check: checkScope, What: "a list of scopes", Most: maxScope, Commas: true}
			}},
		{Key: "oauth.audience", std: "", doc: "requested audience", needs: UrlKey, field: text(func(o *OAuthConfig) *string { return &o.Audience })},
		{Key: "oauth.resource", std: "", doc: "requested resource (RFC 8707)", needs: UrlKey, field: text(func(o *OAuthConfig) *string { return &o.Resource })},
	}
}

func findAPIKey(c *Config, name string) (*APIKey, error) {
	if !KeyName.MatchString(name) || len(name) > maxName {
		return nil, &value.Problem{What: value.Quote(value.Shorten(name)) + " is not a name for an API key", Fix: "use at most 64 letters, digits, dots, hyphens and underscores, a letter or digit first"}
	}
	return entryOf(&c.Security.Auth.Keys, func(k *APIKey) string { return k.Name }, name, func() *APIKey { return &APIKey{Name: name} }), nil
}

func apiKeyParts(k *APIKey) []part {
	return []part{
		{key: "hashes", doc: "SHA-256 hashes of the keys", field: field.List{At: &k.Hashes, Check: checkHash, What: `a list of "sha256:" and 64 hexadecimal digits, as "dragoman key new" prints them`, Least: 1, Most: maxScope}},
		{key: ScopesKey, doc: "scopes of the keys", field: field.List{At: &k.Scopes, Check: checkScope, What: "a list of scopes", Most: maxScope}},
		{key: "expires", doc: "when the keys expire", field: field.Time{At: &k.Expires}},
		{key: "principal", doc: "principal of the caller; default: the name of the entry", field: field.Text{At: &k.Principal, Most: 4 * maxName, What: "text", Empty: true}},
	}
}

func checkHash(item string) error {
	digits, ok := strings.CutPrefix(item, "sha256:")
	if sum, err := hex.DecodeString(digits); !ok || err != nil || len(sum) != 32 { // not repeated: it may be the key itself
		return &value.Problem{What: "is not a hash (it is not shown)", Fix: "write \"sha256:\" and 64 hexadecimal digits; `dragoman key hash` makes it of a key"}
	}
	return nil
}

// checkScope accepts a scope-token (RFC 6749 §3.3).
func checkScope(item string) error {
	bad := func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }
	if item == "" || len(item) > maxScope || strings.ContainsFunc(item, bad) {
		return value.Problemf("%q is not a scope", value.Shorten(item))
	}
	return nil
}

func checkAlgorithm(item string) error {
	if !slices.Contains(oauth.Algorithms(), item) {
		return &value.Problem{What: value.Quote(value.Shorten(item)) + " is not a signature that anybody but the issuer could not make", Fix: "write " + value.OneOf(oauth.Algorithms())}
	}
	return nil
}

// scopeEntry returns the field of one rule.
func scopeEntry(u *Upstream, about string) (field.Field, error) {
	kind, name, _ := strings.Cut(about, ":")
	if star := strings.IndexByte(name, '*'); !slices.Contains([]string{"tool", "prompt", "resource", "method"}, kind) || name == "" || star >= 0 && star < len(name)-1 {
		return nil, &value.Problem{What: value.Quote(value.Shorten(about)) + " does not say what needs scopes", Fix: `write "tool:NAME", "prompt:NAME", "resource:URI" or "method:NAME", with a * at the end for all that begin so`}
	}
	rule := entryOf(&u.Scopes, func(r *ScopeRule) string { return r.About }, about, func() *ScopeRule { return &ScopeRule{About: about} })
	return field.List{At: &rule.Scopes, Check: checkScope, What: `a list of scopes such as ["files:write"]`, Least: 1, Most: maxScope, Commas: true}, nil
}

// keysFile reads security.api_keys_file.
func (l *loader) keysFile() {
	path := l.cfg.Security.Auth.KeysFile
	if path == "" {
		return
	}
	l.beginLayer()
	entries, errs := source.Read(path, userTable)
	l.errs = append(l.errs, errs...)
	for _, e := range entries {
		l.assign(append([]string{"security", "api_keys"}, e.Path...), e.Value, value.Source{Kind: value.FromFile, Name: path, Line: e.Line})
	}
}

// checkAuth reports settings that would let in nobody, or everybody.
func (l *loader) checkAuth() {
	c := l.cfg
	auth := &c.Security.Auth
	switch from := c.sources[apiKeysKey]; {
	case c.Security.APIKeysEnabled && len(auth.Keys) == 0:
		l.fail(&value.Problem{What: "is on, but there is no key: nobody could get in", Fix: "add what `dragoman key new NAME` prints"}, apiKeysKey, from, "")
	case !c.Security.APIKeysEnabled && len(auth.Keys) > 0 && !from.Set():
		l.fail(&value.Problem{What: "is off, although there are keys: everybody would get in", Fix: "write " + apiKeysKey + " = true, or false if that is meant"}, apiKeysKey, from, "")
	}
	seen := map[string]string{}
	for _, k := range auth.Keys {
		table := "security.api_keys." + value.KeyText([]string{k.Name})
		if len(k.Hashes) == 0 && !l.reported(table) {
			l.fail(&value.Problem{What: "has no hashes", Fix: "add what `dragoman key new " + k.Name + "` prints"}, table, c.sources[table+".scopes"], "")
		}
		for _, h := range k.Hashes {
			if other := seen[strings.ToLower(h)]; other != "" {
				l.fail(&value.Problem{What: fmt.Sprintf("the same key is %s's: nobody could say whose it is", other), Fix: "make another with `dragoman key new`"}, table+".hashes", c.sources[table+".hashes"], "")
			}
			seen[strings.ToLower(h)] = k.Name
		}
	}
	l.checkJWT(&auth.JWT)
}

// checkBinding reports rules about callers that are not asked for credentials: such rules would bind nobody.
func (l *loader) checkBinding() {
	c := l.cfg
	if c.Authenticates() {
		return
	}
	const fix = "ask for credentials (" + apiKeysKey + ", " + jwtTable + "issuer or " + tlsTable + "client_auth), or "
	for _, u := range c.Upstreams {
		table := UpstreamsKey + "." + u.Name + "."
		for _, r := range u.Scopes {
			key := table + ScopesKey + "." + value.KeyText([]string{r.About})
			l.fail(&value.Problem{What: "needs scopes, but nobody is asked who he is: everybody would get in without", Fix: fix + "remove the rule"}, key, c.sources[key], "")
		}
		for _, g := range u.Access {
			key := table + AccessKey + "." + value.KeyText([]string{g.Principal})
			if g.Principal == "*" || l.reported(key) {
				continue
			}
			var from value.Source
			for _, p := range grantParts(g) {
				if !from.Set() {
					from = c.sources[key+"."+p.key]
				}
			}
			l.fail(&value.Problem{What: "is about one principal, but nobody is asked who he is: it would bind nobody", Fix: fix + `write "*", which is everybody`}, key, from, "")
		}
	}
}

func (l *loader) checkJWT(j *JWTConfig) {
	at := func(key string) (string, value.Source) { return jwtTable + key, l.cfg.sources[jwtTable+key] }
	fail := func(key, what, fix string) {
		name, from := at(key)
		l.fail(&value.Problem{What: what, Fix: fix}, name, from, "")
	}
	if j.Issuer == "" {
		for key, set := range map[string]bool{"resource": j.Resource != "", "audience": len(j.Audience) > 0, "jwks_url": j.JWKSURL != "", "jwks_file": j.JWKSFile != "", ScopesKey: len(j.Scopes) > 0} {
			if set {
				fail(key, "is set, but no issuer: no token would be taken", "set "+jwtTable+"issuer")
			}
		}
		return
	}
	if j.Resource == "" {
		fail("issuer", "is set, but not "+jwtTable+"resource: clients could not be told for whom to get a token", `write the URL of the listener as clients know it, such as "https://mcp.example.com"`)
	}
	if u, err := url.Parse(j.Resource); err == nil && (u.RawQuery != "" || strings.HasSuffix(u.Path, "/mcp")) {
		fail("resource", "is not what stands before the paths", "leave out /mcp and the query")
	}
	if j.JWKSURL != "" && j.JWKSFile != "" {
		fail("jwks_file", "excludes jwks_url", "keep one of the two")
	}
	if len(j.Algorithms) == 0 || len(j.Types) == 0 {
		fail("algorithms", "no token would be taken without algorithms and types", "remove the empty list")
	}
	if err := value.CheckRoots(j.CAFile); err != nil {
		name, from := at("ca_file")
		l.fail(err, name, from, "")
	}
}

// checkAccess reports what is missing in an upstream's client credentials.
func (l *loader) checkAccess(u *Upstream, table string, at func(string) value.Source) {
	if u.OAuth.TokenURL == "" {
		for key, set := range map[string]bool{"client_id": u.OAuth.ClientID != "", "client_secret": u.OAuth.ClientSecret.Reveal() != ""} {
			if from := at("oauth." + key); set {
				l.fail(&value.Problem{What: "is set, but not token_url", Fix: "set " + table + ".oauth.token_url"}, table+".oauth."+key, from, "")
			}
		}
		return
	}
	if u.OAuth.ClientID == "" {
		l.fail(&value.Problem{What: "is set, but not client_id", Fix: "set " + table + ".oauth.client_id"}, table+".oauth.token_url", at("oauth.token_url"), "")
	}
	for _, h := range u.Headers {
		if strings.EqualFold(h.Name, "Authorization") {
			l.fail(&value.Problem{What: "writes the header Authorization, and so does headers", Fix: "keep one of the two"}, table+".oauth.token_url", at("oauth.token_url"), "")
		}
	}
}
