package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/mcphttp"
	"dragoman/adapters/oauth"
	"dragoman/internal/config"
	"dragoman/policies/access"
	"dragoman/policies/resilience"
	"dragoman/proxy"
)

// identity holds what identifies callers.
type identity struct {
	auth    *access.Authenticator // nil: callers need not authenticate
	forward proxy.Gate            // nil: no headers of clients are forwarded
	scopes  proxy.Policy          // nil: nothing needs scopes
	keys    *oauth.Keys           // of the issuer of tokens; nil: tokens are not accepted
}

// buildIdentity makes the gates and policies that identify callers.
func (g *Generation) buildIdentity() (err error) {
	c, auth := g.Cfg, &g.Cfg.Security.Auth
	names := g.forwardedHeaders()
	if g.identity.forward, err = keep(g, "carried headers", names, spec[proxy.Gate]{build: func(reg prometheus.Registerer) (proxy.Gate, error) {
		return access.ForwardHeaders(access.ForwardOptions{Names: names, Key: []byte(c.Questions.StateKey.Reveal()), Metrics: reg})
	}}); err != nil {
		return err
	}
	if !c.Authenticates() {
		return nil
	}
	opt := access.AuthOptions{Certificates: c.TLS.ClientAuth != config.ClientAuthNone, CertScopes: c.TLS.ClientScopes,
		Loopback: auth.Anonymous == config.AnonymousLoopback, Scopes: auth.JWT.Scopes, Resource: auth.JWT.Resource, Open: g.needsNoCredential, Log: g.Log, Metrics: &registerer{app: g.App}}
	if c.Security.APIKeysEnabled {
		all := make([]access.KeyOptions, 0, len(auth.Keys))
		for _, k := range auth.Keys {
			all = append(all, access.KeyOptions{Name: k.Name, Principal: k.Principal, Hashes: k.Hashes, Scopes: k.Scopes, Expires: k.Expires})
		}
		if opt.Keys, err = access.NewKeys(all, nil); err != nil {
			return err
		}
	}
	if auth.JWT.Issuer != "" {
		v, err := g.tokens(&auth.JWT)
		if err != nil {
			return err
		}
		opt.Tokens = v
	}
	if g.identity.auth, err = access.NewAuthenticator(opt); err != nil {
		return err
	}
	g.identity.scopes, err = access.Scopes(access.ScopeOptions{Rules: scopeRules(c), Only: onlyName(c), Challenge: g.challenge, Metrics: &registerer{app: g.App}})
	return err
}

// challenge returns the WWW-Authenticate value of a refusal, with the scopes that every token needs in addition to
// scopes.
func (g *Generation) challenge(err *proxy.Error, path string, scopes []string) string {
	all := append([]string(nil), g.Cfg.Security.Auth.JWT.Scopes...)
	for _, s := range scopes {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return g.identity.auth.Challenge(err, path, all)
}

// onlyName returns the name of the only upstream; empty if there are several.
func onlyName(c *config.Config) string {
	if len(c.Upstreams) == 1 {
		return c.Upstreams[0].Name
	}
	return ""
}

func scopeRules(c *config.Config) map[string][]access.ScopeRule {
	all := map[string][]access.ScopeRule{}
	for _, u := range c.Upstreams {
		for _, r := range u.Scopes {
			all[u.Name] = append(all[u.Name], access.ScopeRule{About: r.About, Scopes: r.Scopes})
		}
	}
	return all
}

// tokens returns the verifier of bearer tokens.
func (g *Generation) tokens(j *config.JWTConfig) (*oauth.Verifier, error) {
	log := g.Log.With().Str("issuer", j.Issuer).Logger()
	opt := oauth.KeysOptions{Issuer: j.Issuer, URL: j.JWKSURL, File: j.JWKSFile, CAFile: j.CAFile, TTL: j.JWKSTTL, Stale: j.JWKSStale}
	keys, err := keep(g, "keys of the issuer", opt, spec[*oauth.Keys]{build: func(reg prometheus.Registerer) (*oauth.Keys, error) {
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
	}, stage: endsLast, close: (*oauth.Keys).Close})
	if err != nil {
		return nil, err
	}
	g.identity.keys = keys
	check := oauth.VerifierOptions{Issuer: j.Issuer, Resource: j.Resource, Audience: j.Audience, Algorithms: j.Algorithms,
		Types: lower(j.Types), PrincipalClaim: j.PrincipalClaim, Leeway: j.Leeway}
	return keep(g, "tokens", tokenSettings{check, g.number("keys of the issuer")}, spec[*oauth.Verifier]{build: func(reg prometheus.Registerer) (*oauth.Verifier, error) {
		check.Keys = keys
		v, err := oauth.NewVerifier(check)
		if err != nil {
			return nil, err
		}
		return v, reg.Register(gauge("dragoman_tokens_cached", "Bearer tokens that were checked and are remembered.", "", v.Cached))
	}})
}

// tokenSettings is what the verifier of tokens is made from.
type tokenSettings struct {
	opt  oauth.VerifierOptions
	keys uint64
}

// registerKeys registers the metrics of an issuer's keys.
func registerKeys(keys *oauth.Keys, reg prometheus.Registerer) (err error) {
	counter := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, read)
	}
	for _, c := range []prometheus.Collector{
		counter("dragoman_jwks_fetches_total", "Fetches of the keys of the issuer of tokens.", func() float64 { n, _, _, _ := keys.Stats(); return float64(n) }),
		counter("dragoman_jwks_failures_total", "Of these, those that have failed.", func() float64 { _, n, _, _ := keys.Stats(); return float64(n) }),
		gauge("dragoman_jwks_keys", "Keys of the issuer of tokens.", "", func() int { _, _, n, _ := keys.Stats(); return n }),
		gauge("dragoman_jwks_age_seconds", "How long ago they were seen last.", "", func() int { _, _, _, age := keys.Stats(); return int(age.Seconds()) })} {
		err = errors.Join(err, reg.Register(c))
	}
	return err
}

// needsNoCredential reports whether a request needs no credential: one for the metadata that says where to get a token,
// or for the health of the service without its dependencies.
func (g *Generation) needsNoCredential(head *proxy.Head) bool {
	if m := string(head.Method); m != fasthttp.MethodGet && m != fasthttp.MethodHead {
		return false
	}
	path := string(head.Path)
	return path == access.MetadataPath || strings.HasPrefix(path, access.MetadataPath+"/") || path == "/health"
}

// publicHealth returns the handler of /health that hides the dependencies from unauthenticated callers.
func (g *Generation) publicHealth(full func(*fasthttp.RequestCtx)) func(*fasthttp.RequestCtx) {
	if g.identity.auth == nil {
		return full
	}
	short := g.healthOf(true)
	return func(ctx *fasthttp.RequestCtx) {
		if mcphttp.CallerOf(ctx).Rights == nil {
			short(ctx)
			return
		}
		full(ctx)
	}
}

// metadata serves the metadata by which clients find the authorization server (RFC 9728), for the service as a whole
// and for each MCP endpoint.
func (g *Generation) metadata(srv httpserver.Registrar) error {
	j := &g.Cfg.Security.Auth.JWT
	if g.identity.auth == nil || j.Issuer == "" {
		return nil
	}
	g.identity.keys.Prefetch()
	resource := strings.TrimSuffix(j.Resource, "/")
	prefix := strings.TrimPrefix(access.MetadataURL(resource, ""), originOf(resource)+access.MetadataPath)
	scopes := append([]string(nil), j.Scopes...)
	bases := []string{""}
	for _, u := range g.Cfg.Upstreams {
		bases = append(bases, "/servers/"+u.Name)
		for _, r := range u.Scopes {
			for _, s := range r.Scopes {
				if !slices.Contains(scopes, s) {
					scopes = append(scopes, s)
				}
			}
		}
	}
	served := map[string]bool{}
	for _, base := range bases {
		for _, path := range []string{"", "/mcp", "/sse", "/mcp/sse"} {
			doc, err := json.Marshal(struct {
				Resource string   `json:"resource"`
				Servers  []string `json:"authorization_servers"`
				Scopes   []string `json:"scopes_supported,omitempty"`
				Methods  []string `json:"bearer_methods_supported"`
				Name     string   `json:"resource_name"`
			}{resource + base + path, []string{j.Issuer}, scopes, []string{"header"}, g.Cfg.Service.Name})
			if err != nil {
				return fmt.Errorf("metadata: %w", err)
			}
			for _, at := range []string{access.MetadataPath + prefix + base + path, access.MetadataPath + base + path} { // a proxy may strip the prefix
				if served[at] {
					continue
				}
				served[at] = true
				handler := func(ctx *fasthttp.RequestCtx) {
					ctx.SetContentType("application/json")
					ctx.Response.Header.Set("Cache-Control", "max-age=300")
					ctx.SetBody(doc)
				}
				srv.Handle(fasthttp.MethodGet, at, handler)
				srv.Handle(fasthttp.MethodHead, at, handler)
			}
		}
	}
	return nil
}

// originOf returns the scheme and authority of a URL.
func originOf(raw string) string {
	if i := strings.Index(raw, "://"); i >= 0 {
		if end := strings.IndexByte(raw[i+3:], '/'); end >= 0 {
			return raw[:i+3+end]
		}
	}
	return raw
}

// credentials returns what authenticates Dragoman at an upstream besides static headers; nil: nothing does.
func (g *Generation) credentials(up *config.Upstream, w *upstream) (httpclient.Credentials, error) {
	o := &up.OAuth
	if o.TokenURL == "" {
		return nil, nil
	}
	c := oauth.NewClient(oauth.ClientOptions{Upstream: up.Name, TokenURL: o.TokenURL, ID: o.ClientID, Secret: o.ClientSecret.Reveal(), Post: o.ClientAuth == "post",
		Scopes: o.Scopes, Audience: o.Audience, Resource: o.Resource, CAFile: up.CAFile})
	w.client = c
	return c, w.reg.Register(gauge("dragoman_upstream_tokens", "Tokens that were got for an upstream.", up.Name, func() int { return int(c.Fetched()) }))
}

// reauthorize returns the policy for an upstream whose tokens may become invalid before they expire; nil if it has
// none.
func reauthorize(w *upstream) proxy.Policy {
	if w.client == nil {
		return nil
	}
	return resilience.Reauthorize(w.client.Dropped)
}
