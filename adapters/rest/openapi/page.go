package openapi

import (
	"crypto/sha256"
	_ "embed" // page.js, page.css
	"encoding/base64"
	"strings"
)

//go:embed page.js
var script string

//go:embed page.css
var style string

// Page returns a self-contained HTML page that shows the openapi.json beside it (/docs and /openapi.json, or both below
// /servers/NAME) and can call its operations. It loads nothing else, and works under CSP, which is also part of it.
func Page() (contentType string, body []byte) {
	policy := CSP()
	meta, _, _ := strings.Cut(policy, "; frame-ancestors") // only effective in a header
	page := `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="` + meta + `">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>API</title>
<link rel="icon" href="data:,">
<style>` + style + `</style>
</head>
<body>
<main id="app">Loading openapi.json …</main>
<noscript>This page is made by a script. The description itself is <a href="openapi.json">openapi.json</a>.</noscript>
<script>` + script + `</script>
</body>
</html>
`
	return "text/html; charset=utf-8", []byte(page)
}

// CSP returns the Content-Security-Policy of the page: its own script and style, by their hashes, and requests to its origin.
// Frames, and markup made of strings, are forbidden.
func CSP() string {
	return "default-src 'none'; script-src '" + hash(script) + "'; style-src '" + hash(style) +
		"'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'" +
		"; frame-ancestors 'none'"
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
