package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/goccy/go-json"

	"dragoman/proxy"
)

// maxMetadata bounds a metadata document, in bytes.
const maxMetadata = 256 << 10

// discover returns the URL of an issuer's keys from its metadata (RFC 8414 §3; OpenID Connect Discovery 4, in the order of 2026-07-28
// authorization-server-discovery).
func discover(ctx context.Context, w *web, issuer string) (jwksURL string, err error) {
	places, err := wellKnown(issuer)
	if err != nil {
		return "", err
	}
	var all []error
	for _, place := range places {
		body, err := w.get(ctx, place, maxMetadata)
		if err == nil {
			if jwksURL, err = keysIn(body, issuer); err == nil {
				return jwksURL, nil
			}
		}
		all = append(all, fmt.Errorf("%s: %w", place, err))
		if ctx.Err() != nil {
			break
		}
	}
	return "", fmt.Errorf("oauth: no metadata of the issuer: %w", errors.Join(all...))
}

// wellKnown lists the possible URLs of an issuer's metadata.
func wellKnown(issuer string) ([]string, error) {
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("oauth: issuer %q is no URL", issuer)
	}
	origin, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	places := []string{origin + "/.well-known/oauth-authorization-server" + path, origin + "/.well-known/openid-configuration" + path}
	if path != "" {
		places = append(places, origin+path+"/.well-known/openid-configuration")
	}
	return places, nil
}

// keysIn reads jwks_uri. It refuses metadata of another issuer (RFC 8414 §3.3), and keys that would be sent in the clear.
func keysIn(body []byte, issuer string) (string, error) {
	var m struct {
		Issuer string `json:"issuer"`
		JWKS   string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return "", errors.New("is no JSON object")
	}
	switch {
	case m.Issuer != issuer:
		return "", fmt.Errorf("names the issuer %q", m.Issuer[:min(len(m.Issuer), 200)])
	case m.JWKS == "":
		return "", errors.New("has no jwks_uri")
	case !private(m.JWKS):
		return "", errors.New("has a jwks_uri that is not https")
	}
	return m.JWKS, nil
}

// private reports whether requests to a URL cannot be read or changed on the way: it is https, or http on this machine.
func private(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && u.Host != "" && u.User == nil && (u.Scheme == "https" || u.Scheme == "http" && proxy.IsLoopbackHost(u.Hostname()))
}
