package access

import (
	"net/url"
	"strings"
	"time"

	"dragoman/proxy"
)

// Limits on the refusals that are logged, so that guessing credentials does not flood the log.
const (
	refusalBurst  = 20
	refusalPeriod = time.Second
)

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
	base, rest := "", path
	if below, ok := strings.CutPrefix(path, "/servers/"); ok {
		name, _, _ := strings.Cut(below, "/")
		base = "/servers/" + name
		rest = strings.TrimPrefix(path, base)
		if !plainName(name) {
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

// plainName reports whether name is a valid server name, and so is safe in a header.
func plainName(name string) bool {
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return name != ""
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
