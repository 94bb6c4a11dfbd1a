// Package oauth talks to authorization servers. It checks the bearer tokens of clients (RFC 6750, RFC 7519, RFC 9068) with keys that it
// fetches from their issuer, and gets tokens for upstreams (RFC 6749 §4.4). It knows no listener and no upstream.
package oauth

// Algorithms lists the accepted signature algorithms. All are asymmetric: with HS*, everybody who knows the public key could sign,
// and "none" is no signature (RFC 8725 §2.1).
func Algorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}
