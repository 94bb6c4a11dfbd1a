package report

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// Tell returns a check for reports.
func Tell(c *suite.Check) Check {
	out := Check{ID: c.ID, Title: c.Title, Level: string(c.Level), Revisions: c.Revisions, Page: c.Page, URL: pageURL(c), Statement: c.Statement, Why: c.Why, Fix: c.Fix}
	for _, f := range c.Faces {
		out.Faces = append(out.Faces, string(f))
	}
	for _, n := range c.Needs {
		out.Needs = append(out.Needs, needText(n))
	}
	return out
}

// needText describes a need.
func needText(n suite.Need) string {
	kind, name, named := strings.Cut(string(n), ":")
	if named {
		return "the " + kind + " " + name
	}
	switch n {
	case suite.NeedsATool, suite.NeedsAResource, suite.NeedsSession:
		return string(n)
	}
	return "the capability " + string(n)
}

const specification = "https://modelcontextprotocol.io/specification/"

var (
	address = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`https://[^\s,]+`) })
	page    = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:(20\d\d-\d\d-\d\d) )?((?:basic|server|client|schema|changelog|deprecated)(?:/[a-z0-9/-]+)?)(?: §([^;(]+)| ([A-Z][A-Za-z]+))?(?:[;(, ]|$)`)
	})
)

// pageURL returns the URL of the page of a check, in the revision that it names, or in the newest of the check; "" if it is not a page of the
// specification, as an RFC.
func pageURL(c *suite.Check) string {
	m := page().FindStringSubmatch(c.Page)
	if m == nil {
		if strings.HasPrefix(c.Page, "SEP-2663 ") { // an extension's page is its proposal
			return "https://modelcontextprotocol.io/seps/2663-tasks-extension"
		}
		return address().FindString(c.Page) // a check of others', which names its pages
	}
	newest, named := "", m[1]
	for _, f := range c.Faces {
		for _, r := range f.Revisions() {
			if c.At(f, r) {
				newest = max(newest, r)
			}
		}
	}
	if newest == "" {
		return ""
	}
	url := specification + cmp.Or(named, newest) + "/" + strings.TrimSuffix(strings.TrimSuffix(m[2], "index"), "/")
	if section := anchor(m[3] + m[4]); section != "" {
		url += "#" + section
	}
	return url
}

// anchor returns the anchor of a heading in the pages of the specification, of a list of headings that of the first.
func anchor(section string) string {
	section, _, _ = strings.Cut(section, ", §")
	section = strings.TrimSpace(section)
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z':
			return r
		}
		return -1
	}, strings.ToLower(section))
}

// revisionsText names the revisions of a check.
func revisionsText(revisions []string) string {
	all := peer.LegacyStdio.Revisions()
	all = append(all, peer.ModernHTTP.Revisions()...)
	at := -1
	if len(revisions) > 0 {
		at = slices.Index(all, revisions[0])
	}
	switch {
	case len(revisions) == 0:
		return "all"
	case at >= 0 && len(revisions) > 1 && slices.Equal(all[at:], revisions):
		return revisions[0] + " and later"
	}
	return strings.Join(revisions, ", ")
}
