package names

import (
	"regexp"
	"strings"
)

// maxTemplate bounds a template that is matched, in bytes.
const maxTemplate = 4 << 10

// expressions matches the expressions of a URI template (RFC 6570 §2.2).
var expressions = regexp.MustCompile(`\{([+#./;?&]?)[^{}]*\}`)

// expansions are what expressions with an operator may become (RFC 6570 §3.2): more than that is not needed to tell servers apart.
var expansions = map[string]string{"": `[^/?#]*`, "+": `.*`, "#": `(?:#.*)?`, ".": `(?:\.[^/?#]*)?`, "/": `(?:/[^?#]*)?`,
	";": `(?:;[^/?#]*)?`, "?": `(?:\?[^#]*)?`, "&": `(?:&[^#]*)?`}

// Pattern returns an expression for all expansions of a template; nil if it is none.
func Pattern(of string) *regexp.Regexp {
	if len(of) > maxTemplate {
		return nil
	}
	var b strings.Builder
	b.WriteString(`^(?s:`)
	rest := of
	for {
		at := expressions.FindStringSubmatchIndex(rest)
		if at == nil {
			break
		}
		b.WriteString(regexp.QuoteMeta(rest[:at[0]]))
		b.WriteString(expansions[rest[at[2]:at[3]]])
		rest = rest[at[1]:]
	}
	b.WriteString(regexp.QuoteMeta(rest))
	b.WriteString(`)$`)
	r, err := regexp.Compile(b.String())
	if err != nil {
		return nil
	}
	return r
}
