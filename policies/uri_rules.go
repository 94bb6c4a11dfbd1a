package policies

import "strings"

// URIRules selects resources by URI. A pattern that ends in * matches every URI with that beginning. The expressions of a URI template
// in a pattern, such as {id}, match whatever a template may expand to (RFC 6570).
type URIRules struct {
	exact, whole, bare Patterns[bool] // of Permit
	covered            Patterns[bool] // of Cover
	templates          [][]string     // what stands around the expressions of each template
}

// NewURIRules makes rules of patterns.
func NewURIRules(patterns []string) URIRules {
	exact, whole, bare, covered := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	var r URIRules
	for _, pattern := range patterns {
		text, star := strings.CutSuffix(pattern, "*")
		ending := pattern[len(text):]
		p := parsing{partial: star}
		normal, naked, err := p.normal(text)
		if err != nil { // no URI is read so, but a server may list it
			normal, naked = text, text
		}
		wide := p.wide(normal)
		exact[normal+ending], whole[wide+ending], bare[p.bare(naked)+ending] = true, true, true
		decoded, _ := decodedAll(text)
		if again, _, err := p.normal(decoded); err == nil { // a server may decode first and split then
			covered[p.wide(again)+ending] = true
		}
		if covered[wide+ending] = true; star {
			continue
		}
		covered[trimmed(wide, "/.")] = true
		if parts := aroundExpressions(wide); len(parts) > 1 {
			r.templates = append(r.templates, parts)
		}
	}
	r.exact, r.whole, r.bare, r.covered = NewPatterns(exact), NewPatterns(whole), NewPatterns(bare), NewPatterns(covered)
	return r
}

// Empty reports whether there are no rules.
func (r *URIRules) Empty() bool { return r.exact.Empty() }

// Cover reports whether a server may read the URI as one that the rules select. It is the question of rules that deny or demand.
func (r *URIRules) Cover(u *URI) bool {
	for _, reading := range u.readings {
		if _, ok := r.covered.FindExact([]byte(reading)); ok {
			return true
		}
		for _, parts := range r.templates {
			if expands(parts, reading) {
				return true
			}
		}
	}
	return false
}

// Permit reports whether every server reads the URI as one that the rules select. It is the question of rules that allow.
func (r *URIRules) Permit(u *URI) bool {
	_, exact := r.exact.FindExact([]byte(u.exact))
	_, whole := r.whole.FindExact([]byte(u.whole))
	_, bare := r.bare.FindExact([]byte(u.bare))
	return exact && whole && bare
}

// aroundExpressions returns the literal parts of a template; one part is no template.
func aroundExpressions(pattern string) (parts []string) {
	for {
		before, rest, ok := strings.Cut(pattern, "{")
		_, after, closed := strings.Cut(rest, "}")
		if !ok || !closed {
			return append(parts, pattern)
		}
		parts, pattern = append(parts, before), after
	}
}

// expands reports whether a template with the given literal parts may expand to a text.
func expands(parts []string, text string) bool {
	text, ok := strings.CutPrefix(text, parts[0])
	last := parts[len(parts)-1]
	if !ok || !strings.HasSuffix(text, last) {
		return false
	}
	text = strings.TrimSuffix(text, last)
	for _, part := range parts[1 : len(parts)-1] {
		if _, text, ok = strings.Cut(text, part); !ok {
			return false
		}
	}
	return true
}
