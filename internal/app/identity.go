package app

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/oauth"
	"dragoman/internal/app/component"
	"dragoman/internal/app/registry"
	"dragoman/internal/config"
	"dragoman/policies/access"
	"dragoman/proxy"
)

// identity holds what identifies callers.
type identity struct {
	auth    *access.Authenticator // nil: callers need not authenticate
	forward proxy.Gate            // nil: no headers of clients are forwarded
	scopes  *access.ScopePolicy   // nil: nothing needs scopes
	keys    *oauth.Keys           // of the issuer of tokens; nil: tokens are not accepted
	tokens  access.Tokens         // verifies them; likewise

	operators proxy.Gate // of the API of registered servers; nil: nobody may call it
}

// buildIdentity makes the gates and policies that identify callers.
func buildIdentity(set *component.Set, c *config.Config, log zerolog.Logger) (id identity, err error) {
	if id, err = buildCallers(set, c, log); err == nil {
		id.operators, err = registry.Operators(c, id.tokens, set.Registerer(), log)
	}
	return id, err
}

// buildCallers makes those of the main listener.
func buildCallers(set *component.Set, c *config.Config, log zerolog.Logger) (id identity, err error) {
	names := forwardedHeaders(c)
	if id.forward, err = component.Get(set, "carried headers", names, component.Spec[proxy.Gate]{Build: func(reg prometheus.Registerer) (proxy.Gate, error) {
		return access.ForwardHeaders(access.ForwardOptions{Names: names, Key: []byte(c.Questions.StateKey.Reveal()), Metrics: reg})
	}}); err != nil || !c.Authenticates() {
		return id, err
	}
	auth := &c.Security.Auth
	opt := access.AuthOptions{Certificates: c.TLS.ClientAuth != config.ClientAuthNone, CertScopes: c.TLS.ClientScopes,
		Loopback: auth.Anonymous == config.AnonymousLoopback, Scopes: auth.JWT.Scopes, Resource: auth.JWT.Resource, Open: needsNoCredential, Log: log, Metrics: set.Registerer()}
	if c.Security.APIKeysEnabled {
		all := make([]access.KeyOptions, 0, len(auth.Keys))
		for _, k := range auth.Keys {
			all = append(all, access.KeyOptions{Name: k.Name, Principal: k.Principal, Hashes: k.Hashes, Scopes: k.Scopes, Expires: k.Expires})
		}
		if opt.Keys, err = access.NewKeys(all); err != nil {
			return id, err
		}
	}
	if auth.JWT.Issuer != "" {
		if id.keys, err = buildKeys(set, &auth.JWT, log); err != nil {
			return id, err
		}
		verifier, err := buildVerifier(set, &auth.JWT, id.keys)
		if err != nil {
			return id, err
		}
		opt.Tokens, id.tokens = verifier, verifier
	}
	authenticator, err := access.NewAuthenticator(opt)
	if err != nil {
		return id, err
	}
	id.auth = authenticator
	only := c.Unnamed()
	if only == nil {
		only = new(config.Upstream)
	}
	id.scopes, err = access.Scopes(access.ScopeOptions{Rules: scopeRules(c), Only: only.Name, Metrics: set.Registerer(),
		Challenge: func(err *proxy.Error, path string, scopes []string) string {
			return authenticator.Challenge(err, path, union(auth.JWT.Scopes, scopes))
		}})
	return id, err
}

// union returns the elements of both lists, in their order, each once.
func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

func scopeRules(c *config.Config) map[string][]access.ScopeRule {
	all := map[string][]access.ScopeRule{}
	for _, u := range c.Upstreams {
		for _, r := range u.Scopes {
			all[u.Name] = append(all[u.Name], access.ScopeRule{About: r.About, Scopes: r.Scopes})
		}
	}
	for _, g := range c.Groups {
		if len(g.Scopes) > 0 {
			all[proxy.GroupTarget(g.Name)] = []access.ScopeRule{{About: "method:*", Scopes: g.Scopes}}
		}
	}
	return all
}

// buildKeys makes the keys of the issuer of bearer tokens.
func buildKeys(set *component.Set, j *config.JWTConfig, log zerolog.Logger) (*oauth.Keys, error) {
	log = log.With().Str("issuer", j.Issuer).Logger()
	opt := oauth.KeysOptions{Issuer: j.Issuer, URL: j.JWKSURL, File: j.JWKSFile, CAFile: j.CAFile, TTL: j.JWKSTTL, Stale: j.JWKSStale}
	return component.Get(set, issuerKeys, opt, component.Spec[*oauth.Keys]{Build: func(reg prometheus.Registerer) (*oauth.Keys, error) {
		opt.Note = func(err error) {
			if err != nil {
				log.Warn().Err(err).Msg("the keys of the issuer of tokens cannot be fetched")
				return
			}
			log.Debug().Msg("the keys of the issuer of tokens were fetched")
		}
		keys, err := oauth.NewKeys(opt)
		if err != nil {
			return nil, err
		}
		return keys, registerKeys(keys, reg)
	}, Stage: component.Last, Close: (*oauth.Keys).Close})
}

// buildVerifier makes the verifier of bearer tokens.
func buildVerifier(set *component.Set, j *config.JWTConfig, keys *oauth.Keys) (*oauth.Verifier, error) {
	opt := oauth.VerifierOptions{Issuer: j.Issuer, Resource: j.Resource, Audience: j.Audience, Algorithms: j.Algorithms,
		Types: lower(j.Types), PrincipalClaim: j.PrincipalClaim, Leeway: j.Leeway}
	return component.Get(set, "tokens", []any{opt, set.Number(issuerKeys)}, component.Spec[*oauth.Verifier]{Build: func(reg prometheus.Registerer) (*oauth.Verifier, error) {
		opt.Keys = keys
		v, err := oauth.NewVerifier(opt)
		if err != nil {
			return nil, err
		}
		return v, reg.Register(component.Gauge("dragoman_tokens_cached", "Bearer tokens that were checked and are remembered.", "", v.Cached))
	}})
}

// issuerKeys is the name of the component of the issuer's keys.
const issuerKeys = "keys of the issuer"

// registerKeys registers the metrics of an issuer's keys.
func registerKeys(keys *oauth.Keys, reg prometheus.Registerer) error {
	return component.Register(reg,
		component.Counter("dragoman_jwks_fetches_total", "Fetches of the keys of the issuer of tokens.", "", func() uint64 { n, _, _, _ := keys.Stats(); return n }),
		component.Counter("dragoman_jwks_failures_total", "Of these, those that have failed.", "", func() uint64 { _, n, _, _ := keys.Stats(); return n }),
		component.Gauge("dragoman_jwks_keys", "Keys of the issuer of tokens.", "", func() int { _, _, n, _ := keys.Stats(); return n }),
		component.Gauge("dragoman_jwks_age_seconds", "How long ago they were seen last.", "", func() int { _, _, _, age := keys.Stats(); return int(age.Seconds()) }))
}

// needsNoCredential reports whether a request needs no credential: one for the metadata that says where to get a token,
// for the health of the service without its dependencies, or for the page that asks for a key and shows nothing without one.
func needsNoCredential(head *proxy.Head) bool {
	if m := string(head.Method); m != fasthttp.MethodGet && m != fasthttp.MethodHead {
		return false
	}
	path := string(head.Path)
	if server, rest := proxy.CutServer(path); server != "" {
		return rest == "/docs"
	}
	return path == access.MetadataPath || strings.HasPrefix(path, access.MetadataPath+"/") || path == "/health" || path == "/docs"
}

// forwardedHeaders returns the headers of clients that some upstream gets.
func forwardedHeaders(c *config.Config) (names []string) {
	for _, u := range c.Upstreams {
		for _, f := range u.Forward {
			if !slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, f.From) }) {
				names = append(names, f.From)
			}
		}
	}
	return names
}

func lower(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = strings.ToLower(s)
	}
	return out
}
