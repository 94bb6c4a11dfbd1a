// Package oauth speaks to authorization servers: it checks the bearer tokens that they give out to clients (RFC 6750, RFC 7519,
// RFC 9068), with keys that it fetches from them, and gets tokens of Dragoman's own for upstreams (RFC 6749, 4.4). It knows no
// listener and no upstream.
package oauth

// Algorithms are the signatures that count: only such that who checks one could not have made it. With HS* whoever knows the
// public key could sign, and none is no signature (RFC 8725, 2.1).
func Algorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}
