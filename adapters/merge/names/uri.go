package names

import "strings"

// scheme is how the schemes of URIs begin that name a server. A host in the role of a scheme may contain what a scheme may (RFC 3986
// §3.1, §3.2.2), so that the URI of a resource stays one when it is written below it.
const scheme = "dragoman+"

// app begins the URIs of MCP Apps (SEP-1865). Hosts refuse a reference that begins otherwise, so that theirs names the server in the place of
// the host.
const app = "ui://"

// PublicURI returns the URI by which clients reach a resource of a server, where the plain one belongs to another server. It is also made of
// URI templates (RFC 6570): an expansion of the result is the result of an expansion. server is a name of letters, digits, - and _.
//
//	demo://x/{id} of docs    dragoman+docs://demo///x/{id}
//	ui://chart/{id} of docs  ui://dragoman+docs/chart/{id}
func PublicURI(server, uri string) string {
	if rest, ok := strings.CutPrefix(uri, app); ok {
		return app + scheme + server + "/" + rest
	}
	head := scheme + strings.ReplaceAll(server, "_", ".") + "://" // no _ in a scheme, no . in a server's name
	if at, rest, ok := strings.Cut(uri, ":"); ok && isScheme(at) {
		return head + at + "/" + rest
	}
	return head + "/" + uri
}

// SplitURI reverses PublicURI; ok is false if the URI is none of its results. Schemes are compared as RFC 3986 §6.2.2.1 says.
func SplitURI(public string) (server, uri string, ok bool) {
	if rest, ok := cutFold(public, app+scheme); ok {
		server, rest, ok = strings.Cut(rest, "/")
		return strings.ToLower(server), app + rest, ok && server != ""
	}
	at, rest, found := strings.Cut(public, "://")
	if !found || len(at) <= len(scheme) || !strings.EqualFold(at[:len(scheme)], scheme) {
		return "", "", false
	}
	inner, rest, found := strings.Cut(rest, "/")
	if !found || inner != "" && !isScheme(inner) {
		return "", "", false
	}
	server = strings.ReplaceAll(strings.ToLower(at[len(scheme):]), ".", "_")
	if inner == "" {
		return server, rest, true
	}
	return server, inner + ":" + rest, true
}

// skill begins the URIs of skills (SEP-2640), and main is the last part of the URI of one.
const (
	skill = "skill://"
	main  = "SKILL.md"
)

// SkillURI returns the URI by which clients reach a file of a skill, or a folder, whose URI at its server begins with skill://: the server is
// the first part of the path, so that it tells skills of several servers apart and the skill's name stays where SEP-2640 wants it. ok is
// false for any other URI, and for one with nothing before SKILL.md, which is no skill's. Templates are taken as well.
//
//	skill://billing/refunds/SKILL.md of shop    skill://shop/billing/refunds/SKILL.md
func SkillURI(server, uri string) (public string, ok bool) {
	rest, ok := strings.CutPrefix(uri, skill)
	if !ok || rest == "" || rest == main {
		return "", false
	}
	return skill + server + "/" + rest, true
}

// SplitSkillURI reverses SkillURI; ok is false if the URI is none of its results.
func SplitSkillURI(public string) (server, uri string, ok bool) {
	rest, ok := cutFold(public, skill)
	server, rest, more := strings.Cut(rest, "/")
	if !ok || !more || server == "" || rest == "" || rest == main {
		return "", "", false
	}
	return strings.ToLower(server), skill + rest, true
}

// cutFold is strings.CutPrefix for a prefix of which capitals do not matter.
func cutFold(s, prefix string) (rest string, ok bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return "", false
	}
	return s[len(prefix):], true
}

// Scheme returns the scheme of a URI or template in lower case; empty if it has none.
func Scheme(uri string) string {
	at, _, ok := strings.Cut(uri, ":")
	if !ok || !isScheme(at) {
		return ""
	}
	return strings.ToLower(at)
}

// isScheme reports whether s is a scheme by RFC 3986 §3.1.
func isScheme(s string) bool {
	for i, c := range []byte(s) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || !(c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.')) {
			return false
		}
	}
	return s != ""
}
