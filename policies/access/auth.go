// Package access decides who may reach a listener and what a caller may use: origins, proxies, credentials, scopes,
// revisions, and the tools, prompts and resources of each server.
package access

import (
	"bytes"
	"crypto/x509"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Tokens verifies bearer tokens that are not API keys.
type Tokens interface {
	// Verify checks the token of a request for path at the time now. cert is the client certificate of the connection,
	// nil if there is none. The error is BadCredentials, or NoKeys if there are no keys to verify with.
	Verify(token, path []byte, cert *x509.Certificate, now time.Time) (proxy.Caller, *proxy.Error)
}

// AuthOptions lists the credentials that a listener accepts. A nil or false field switches its kind off.
type AuthOptions struct {
	Keys         *Keys
	Tokens       Tokens
	Certificates bool     // accept client certificates, which the listener has verified
	CertScopes   []string // scopes of a caller with a certificate
	Loopback     bool     // requests from this machine, through no proxy, need no credential
	Scopes       []string // that every token must have
	Resource     string   // URL of the listener as clients know it, for metadata and challenges; empty: unknown
	Open         func(h *proxy.Head) bool
	Log          zerolog.Logger
	Metrics      prometheus.Registerer
}

// Authenticator is the gate that identifies the caller of every request (2026-07-28 authorization, Access Token Usage).
// One valid credential of any kind suffices. An invalid one ends the request even beside a valid one, so that no caller
// is taken for another one, or for an anonymous one.
type Authenticator struct {
	opt      AuthOptions
	admitted *prometheus.CounterVec
	last     atomic.Pointer[admission] // the counter used last, which saves a look-up
	refused  *prometheus.CounterVec
}

// Limits on the refusals that are logged, so that guessing credentials does not flood the log.
const (
	refusalBurst  = 20
	refusalPeriod = time.Second
)

// NewAuthenticator makes the gate. The error is that of registering the metrics.
func NewAuthenticator(opt AuthOptions) (*Authenticator, error) {
	opt.Log = opt.Log.Sample(&zerolog.BurstSampler{Burst: refusalBurst, Period: refusalPeriod})
	reg := policies.NewRegistry(opt.Metrics)
	a := &Authenticator{opt: opt,
		admitted: reg.Counter("dragoman_authenticated_total",
			"Requests admitted, by credential (api_key, jwt, certificate, anonymous, or open where none is needed).", "kind"),
		refused: reg.Counter("dragoman_unauthenticated_total",
			"Requests refused for a missing or invalid credential, by row of the error table.", "reason")}
	return a, reg.Err()
}

// Gate returns the gate, or nil for a nil Authenticator.
func (a *Authenticator) Gate() proxy.Gate {
	if a == nil {
		return nil
	}
	return a.judge
}

func (a *Authenticator) judge(h *proxy.Head) *proxy.Error {
	caller, err := a.identify(h)
	switch {
	case err == nil && caller.Rights != nil:
		h.Caller = caller
		a.count(caller.Rights.Kind)
		return nil
	case err == nil && a.opt.Open != nil && a.opt.Open(h):
		a.count("open")
		return nil
	case err == nil && a.opt.Loopback && local(h):
		h.Caller = proxy.Caller{Rights: &proxy.Rights{Kind: "anonymous"}}
		a.count("anonymous")
		return nil
	case err == nil:
		err = proxy.Errf(proxy.Unauthenticated, "show who you are: %s", a.wanted())
	}
	a.refused.WithLabelValues(err.Name).Inc()
	a.opt.Log.Info().Str("outcome", err.Name).Stringer("address", h.Address).Str("path", wire.Shown(h.Path)).AnErr("cause", err.Cause).Msg(err.Message)
	switch err.Status {
	case 401, 403:
		h.SetHeader("WWW-Authenticate", a.Challenge(err, string(h.Path), a.opt.Scopes))
	case 503:
		h.SetHeader("Retry-After", "1")
	}
	return err
}

// admission is the counter for one kind of credential.
type admission struct {
	kind  string
	count prometheus.Counter
}

// count counts a request that was admitted.
func (a *Authenticator) count(kind string) {
	of := a.last.Load()
	if of == nil || of.kind != kind {
		of = &admission{kind, a.admitted.WithLabelValues(kind)}
		a.last.Store(of)
	}
	of.count.Inc()
}

// wanted lists the accepted kinds of credential for an error message.
func (a *Authenticator) wanted() string {
	var kinds []string
	if a.opt.Tokens != nil {
		kinds = append(kinds, "a bearer token (Authorization: Bearer TOKEN)")
	}
	if a.opt.Keys != nil {
		kinds = append(kinds, "an API key (Authorization: Bearer KEY, or X-API-Key: KEY)")
	}
	if a.opt.Certificates {
		kinds = append(kinds, "a client certificate")
	}
	return strings.Join(kinds, ", or ")
}

// identify returns the caller by the most personal credential of the request. Its Rights are nil if there is none.
// Every credential must be valid, and an API key and a bearer token must name the same caller. Only a certificate may
// name another one: that of a program which carries its user's token.
func (a *Authenticator) identify(h *proxy.Head) (who proxy.Caller, err *proxy.Error) {
	if a.opt.Certificates && h.Cert != nil {
		if who, err = a.certified(h.Cert); err != nil {
			return who, err
		}
	}
	var key proxy.Caller
	if a.opt.Keys != nil {
		lines := h.Fields.PeekAll("X-API-Key")
		if len(lines) > 1 {
			return who, proxy.Errf(proxy.BadCredentials, "several X-API-Key headers came; send one")
		}
		if len(lines) == 1 {
			if key, err = a.opt.Keys.Find(bytes.TrimSpace(lines[0])); err != nil {
				return who, err
			}
			who = key
		}
	}
	lines := h.Fields.PeekAll("Authorization")
	if len(lines) == 0 || a.opt.Keys == nil && a.opt.Tokens == nil {
		return who, nil
	}
	if len(lines) > 1 {
		return who, proxy.Errf(proxy.BadCredentials, "several Authorization headers came; send one")
	}
	bearer, err := a.bearer(h, lines[0])
	if err == nil && key.Rights != nil && !bearer.Is(&key) {
		err = proxy.Errf(proxy.BadCredentials, "Authorization and X-API-Key are of different callers; send one of them")
	}
	return bearer, err
}

// bearer checks an Authorization header, which holds an API key or a token.
func (a *Authenticator) bearer(h *proxy.Head, field []byte) (proxy.Caller, *proxy.Error) {
	token := bearerToken(field)
	if len(token) == 0 {
		return proxy.Caller{}, proxy.Errf(proxy.BadCredentials, "the Authorization header is not Bearer and a token")
	}
	if a.opt.Keys != nil {
		caller, err := a.opt.Keys.Find(token)
		if err == nil || a.opt.Tokens == nil || bytes.HasPrefix(token, []byte(policies.KeyPrefix)) {
			return caller, err
		}
	}
	caller, err := a.opt.Tokens.Verify(token, h.Path, h.Cert, h.Now())
	if err != nil {
		return caller, err
	}
	for _, scope := range a.opt.Scopes {
		if !caller.Has(scope) {
			return caller, proxy.Errf(proxy.InsufficientScope, "the token lacks a scope; needed are %s", strings.Join(a.opt.Scopes, " "))
		}
	}
	return caller, nil
}

// bearerToken returns the token of an Authorization header, or nil if its scheme is not Bearer.
func bearerToken(field []byte) []byte {
	if token, ok := bytes.CutPrefix(field, []byte("Bearer ")); ok { // the usual spelling
		return bytes.TrimSpace(token)
	}
	scheme, token, _ := bytes.Cut(bytes.TrimSpace(field), []byte{' '})
	if !strings.EqualFold(string(scheme), "Bearer") {
		return nil
	}
	return bytes.TrimSpace(token)
}

// maxCertName is the longest name that is taken from a certificate, in bytes.
const maxCertName = 512

// certified identifies the holder of a certificate by its first URI (SPIFFE has one), else its first DNS name, else its
// common name. The listener verified the certificate when the connection was opened, possibly long ago, so the expiry
// is checked again.
func (a *Authenticator) certified(cert *x509.Certificate) (proxy.Caller, *proxy.Error) {
	if time.Now().After(cert.NotAfter) {
		return proxy.Caller{}, proxy.Errf(proxy.BadCredentials, "the client certificate has expired")
	}
	name := cert.Subject.CommonName
	kind := "cn:"
	if len(cert.DNSNames) > 0 {
		kind, name = "dns:", cert.DNSNames[0]
	}
	if len(cert.URIs) > 0 {
		kind, name = "uri:", cert.URIs[0].String()
	}
	if name == "" || len(name) > maxCertName {
		return proxy.Caller{}, proxy.Errf(proxy.BadCredentials, "the client certificate has no URI, DNS name or common name, or one longer than %d bytes", maxCertName)
	}
	return proxy.Caller{Principal: "certificate:" + kind + name,
		Rights: &proxy.Rights{Kind: "certificate", Name: name, Scopes: a.opt.CertScopes, Expires: cert.NotAfter}}, nil
}

// forwarding lists the headers that proxies add to a request.
var forwarding = []string{"X-Forwarded-For", "Forwarded", "X-Real-IP", "X-Forwarded-Host", "Via"}

// local reports whether a request comes from this machine. A request that a local proxy has passed on may come from
// anywhere.
func local(h *proxy.Head) bool {
	return h.Address.IsLoopback() && !slices.ContainsFunc(forwarding, func(name string) bool { return len(h.Fields.Peek(name)) > 0 })
}

// MetadataPath precedes a resource's own path in the URL of its metadata (RFC 9728, 3.1).
const MetadataPath = "/.well-known/oauth-protected-resource"

// Challenge returns the value of WWW-Authenticate for a refusal (RFC 6750, 3; RFC 9728, 5.1; 2026-07-28 authorization).
// path is the path of the request, and scopes are those that it needs. The challenge has an error code only if the
// request carried a credential.
func (a *Authenticator) Challenge(err *proxy.Error, path string, scopes []string) string {
	if a.opt.Keys == nil && a.opt.Tokens == nil {
		return `Certificate realm="dragoman"` // no registered scheme asks for a client certificate, but a 401 must have a challenge
	}
	var b strings.Builder
	b.WriteString(`Bearer realm="dragoman"`)
	add := func(name, value string) { b.WriteString(", " + name + `="` + quotable(value) + `"`) }
	switch err.Name {
	case proxy.BadCredentials.Name:
		add("error", "invalid_token")
		add("error_description", err.Message)
	case proxy.InsufficientScope.Name:
		add("error", "insufficient_scope")
		add("error_description", err.Message)
	}
	if len(scopes) > 0 {
		add("scope", strings.Join(scopes, " "))
	}
	if a.opt.Tokens != nil {
		add("resource_metadata", MetadataURL(a.opt.Resource, resourcePath(path)))
	}
	return b.String()
}

// MetadataURL returns the URL of the metadata for path below resource. It is empty if resource is not a URL.
func MetadataURL(resource, path string) string {
	u, err := url.Parse(resource)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + MetadataPath + strings.TrimSuffix(u.EscapedPath(), "/") + path
}

// resourcePath returns the endpoint that a request path belongs to, which is the path of the URL that clients
// configure. A path that is no MCP endpoint belongs to its server as a whole, or with an empty result to the whole
// service.
func resourcePath(path string) string {
	base := ""
	name, rest := proxy.CutServer(path)
	if name != "" {
		base = proxy.ServerPath(name)
		if !plainPath(base) {
			return ""
		}
	}
	switch rest {
	case "/mcp", "/sse", "/mcp/sse":
		return base + rest
	case "/messages":
		return base + "/sse"
	}
	return base
}

// plainPath reports whether the path of a server consists of valid names, and so is safe in a header.
func plainPath(path string) bool {
	for _, c := range []byte(path) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '/' {
			return false
		}
	}
	return true
}

// quotable removes the characters that a quoted value of a challenge must not contain, and turns double quotes into
// single ones (RFC 6750, 3).
func quotable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '\\' {
			return -1
		}
		if r == '"' {
			return '\''
		}
		return r
	}, text)
}
