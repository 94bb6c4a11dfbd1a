package access

import (
	"net/url"
	"strings"
	"time"

	"dragoman/proxy"
)

// Refusals that are logged at a time, so that whoever guesses does not write the log.
const (
	refusalBurst  = 20
	refusalPeriod = time.Second
)

// MetadataPath is where the metadata of a resource is found: before the resource's own path (RFC 9728, 3.1).
const MetadataPath = "/.well-known/oauth-protected-resource"

// Challenge is the value of WWW-Authenticate for an error (RFC 6750, 3; RFC 9728, 5.1; 2026-07-28 authorization). An error code
// goes with it only if something was shown; scopes are what is needed.
func (a *Authenticator) Challenge(err *proxy.Error, path string, scopes []string) string {
	if a.opt.Keys == nil && a.opt.Tokens == nil {
		return `Certificate realm="dragoman"` // no scheme that is registered asks for one; a status of 401 needs a challenge
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

// MetadataURL is where the metadata of what is at path below a resource can be had.
func MetadataURL(resource, path string) string {
	u, err := url.Parse(resource)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + MetadataPath + strings.TrimSuffix(u.EscapedPath(), "/") + path
}

// resourcePath is the endpoint that a path belongs to: what clients of it have as the URL of their server. What is no MCP endpoint
// belongs to the service as a whole.
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

// plainName tells whether a server's name is one that may be configured, and so can stand in a header as it is.
func plainName(name string) bool {
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return name != ""
}

// quotable leaves of a text what may stand in a quoted value of a challenge (RFC 6750, 3).
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
