package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dragoman/conformance/checks"
	"dragoman/conformance/mock"
	"dragoman/conformance/official"
	suitepeer "dragoman/conformance/peer"
	"dragoman/conformance/suite"
	"dragoman/internal/config/value"
)

const conformanceLong = `Test an MCP server: over modern and legacy HTTP, HTTP+SSE, the REST envelope, or,
as a command, over stdio, in every revision that it speaks. Each check tests one
statement of the specification. For each violation the report has what was sent,
what came back, and how to fix it. Several URLs are endpoints of the same server;
unix:/PATH and tcp://HOST:PORT are sockets on which it speaks lines, as over stdio.

--expected-failures names a file with lines of check-id[@face[@revision]] # reason.
Failures that it lists do not fail the run; entries without a failure do (STALE).

With --client the COMMAND is a client. It is started once for each scenario, with the
URL of a server made for it as its last argument or in place of {url}, or, over
stdio, with the command of the server in place of {command}. It must list the tools
and call each. With --intermediary the COMMAND is an intermediary, with {listen} in place
of its HOST:PORT, and {upstream} (a URL) or {command} in place of the server behind
it. It must conform as far as that server does by itself.

Reports contain what a server sends, except for the values of --header and of the
URL. Checks call tools and read resources that the server offers: do not test a
server whose data must not change.

Exit codes: 0 success, 1 something fails, 2 wrong usage, 3 no server answers
or none that speaks MCP, 130 a second interrupt.`

const conformanceExample = `  dragoman conformance https://example.com/mcp
  dragoman conformance -- npx -y @modelcontextprotocol/server-everything
  dragoman conformance http://127.0.0.1:8080/mcp http://127.0.0.1:8080/sse --junit report.xml
  dragoman conformance --only 'tools.*' --revision 2025-11-25 https://example.com/mcp
  dragoman conformance --client -- node my-client.js
  dragoman conformance --client -- node my-client.js --stdio {command}
  dragoman conformance --intermediary -- dragoman serve --listen {listen} --admin off {upstream}
  dragoman conformance --list --only session
  dragoman conformance --explain request.version-mismatch
  dragoman conformance --json=after.json https://example.com/mcp
  dragoman conformance --diff before.json after.json`

// exitNobody is the exit code of a test that found no server.
const exitNobody = 3

const (
	mostJobs        = 64
	leastAnswerTime = 100 * time.Millisecond
	mostAnswerTime  = 10 * time.Minute
)

// conformanceFlags holds the values of the flags: those that are options as they stand, and those that are parsed.
type conformanceFlags struct {
	ConformanceOptions
	list, diff                         bool
	officialCommand                    string
	explain                            string
	face, revision, only, skip, header []string
	caFile                             string
	json, junit, sarif, markdown, html string
	badged                             string
}

func newConformance(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:     "conformance [flags] URL... | -- COMMAND [ARG...]",
		Short:   "Test an MCP server against the specification",
		Long:    conformanceLong,
		Example: conformanceExample,
	}
	f := &conformanceFlags{}
	f.add(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := f.agree(c.Flags()); err != nil {
			return err
		}
		switch {
		case f.diff:
			return p.conformanceDiff(f, args)
		case f.explain != "" || f.list:
			return p.conformanceTell(c, f, args)
		}
		opt, err := p.conformanceOptions(c, f, args)
		if err != nil {
			return err
		}
		return p.run.Conformance(c.Context(), opt, p.std)
	}
	return c
}

func (f *conformanceFlags) add(c *cobra.Command) {
	flags := c.Flags()
	faces, revisions := faceNames(), suite.From("")
	flags.StringSliceVar(&f.face, "face", nil, "test only this `FACE`: "+value.OneOf(faces)+"; repeatable")
	flags.StringSliceVar(&f.revision, "revision", nil, "test only this `REVISION`, such as "+revisions[len(revisions)-1]+"; repeatable")
	flags.StringSliceVar(&f.only, "only", nil, "only these checks: `ID|AREA`, with * for anything; repeatable")
	flags.StringSliceVar(&f.skip, "skip", nil, "not these checks: `ID|AREA`, with * for anything; repeatable")
	flags.StringVar(&f.Expected, "expected-failures", "", "`FILE` of what is known to fail: check-id[@face[@revision]] # reason")
	flags.BoolVar(&f.Strict, "strict", false, "a violated SHOULD fails the run")
	flags.StringArrayVar(&f.header, "header", nil, "`'NAME: VALUE'` of every request, such as credentials; VALUE may be env:NAME, file:/path or @FILE; --header @FILE reads such lines; repeatable")
	flags.StringVar(&f.caFile, "ca-file", "", "PEM `FILE` of the roots to trust instead of the system's")
	flags.DurationVar(&f.Timeout, "timeout", 10*time.Second, "how long an answer may take, `DURATION`")
	flags.IntVar(&f.Jobs, "jobs", 4, "run `N` checks at a time")
	flags.BoolVar(&f.Verbose, "verbose", false, "show all messages where something failed, and what was skipped")
	jsonReport(flags, &f.json)
	flags.StringVar(&f.junit, "junit", "", "write the report as JUnit XML into `FILE`, - is standard output (here and below, once)")
	flags.StringVar(&f.sarif, "sarif", "", "as SARIF 2.1.0 into `FILE`")
	flags.StringVar(&f.markdown, "markdown", "", "as Markdown into `FILE`")
	flags.StringVar(&f.html, "html", "", "as a page with all details into `FILE`")
	flags.StringVar(&f.badged, "badge", "", "a badge into `FILE`: an image if its name ends in .svg, else JSON for shields.io's endpoint")
	flags.BoolVar(&f.Client, "client", false, "test the COMMAND as a client")
	flags.BoolVar(&f.Intermediary, "intermediary", false, "test the COMMAND as an intermediary")
	flags.StringArrayVar(&f.Fronts, "front", nil, "with --intermediary: `URL` at which clients reach it, with {listen} (default http://{listen}/mcp); repeatable")
	flags.BoolVar(&f.Official, "official", false, "run the official suite too, from npm; over stdio and HTTP+SSE through a Dragoman")
	flags.StringVar(&f.officialCommand, "official-command", "", "the `WORDS` that start the official suite (default npx and the package)")
	flags.BoolVar(&f.list, "list", false, "list the checks instead, as text, --json or --markdown; --markdown DIRECTORY/ writes a page for each")
	flags.StringVar(&f.explain, "explain", "", "explain the check `ID` instead")
	flags.BoolVar(&f.diff, "diff", false, "compare two reports that --json has written instead: OLD.json NEW.json")
	complete := func(name string, words []string) { // fails only if there is no such flag
		_ = c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
	complete("face", faces)
	complete("revision", revisions)
	for _, name := range []string{"only", "skip", "explain"} { // computed on request, since it would slow down every start
		_ = c.RegisterFlagCompletionFunc(name, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return checkIDs(allChecks()), cobra.ShellCompDirectiveNoFileComp
		})
	}
}

// modeFlags lists the flags that each mode accepts, besides its own.
var modeFlags = map[string][]string{
	"diff":    {"json", "markdown"},
	"list":    {"json", "markdown", "face", "revision", "only", "skip"},
	"explain": {},
	"client":  {"face", "revision", "only", "skip", "expected-failures", "strict", "timeout", "verbose", "json", "junit", "sarif", "markdown", "html", "badge"},
	"intermediary": {"face", "revision", "only", "skip", "expected-failures", "strict", "timeout", "verbose", "json", "junit", "sarif", "markdown", "html", "badge",
		"header", "ca-file", "jobs", "front"},
}

// agree refuses flags that exclude each other.
func (f *conformanceFlags) agree(flags *pflag.FlagSet) error {
	mode := ""
	for _, name := range []string{"diff", "list", "explain", "client", "intermediary"} {
		if !flags.Changed(name) || flags.Lookup(name).Value.String() == "false" {
			continue
		}
		if mode != "" {
			return usagef("both --%s and --%s are given; fix: leave one out", mode, name)
		}
		mode = name
	}
	var err error
	flags.Visit(func(g *pflag.Flag) {
		switch {
		case err != nil || g.Name == mode || g.Name == "help":
		case mode == "" && g.Name == "front":
			err = usagef("--front is for --intermediary; fix: leave it out, or write `dragoman conformance --intermediary -- COMMAND`")
		case mode != "" && !slices.Contains(modeFlags[mode], g.Name):
			err = usagef("--%s means nothing with --%s; fix: leave one out", g.Name, mode)
		}
	})
	return err
}

// allChecks returns the checks of servers, then those of clients.
func allChecks() []*suite.Check { return slices.Concat(checks.All(), mock.Checks()) }

func faceNames() (names []string) {
	for _, f := range suitepeer.Faces() {
		names = append(names, string(f))
	}
	return names
}

func checkIDs(all []*suite.Check) (ids []string) {
	for _, c := range all {
		ids = append(ids, c.ID)
	}
	return ids
}

// choice is the result of --face, --revision, --only and --skip.
type choice struct {
	faces     []suitepeer.Face
	revisions []string
	checks    []*suite.Check // chosen checks
	tried     []*suite.Check // checks to run for them

	only, skip []string // patterns for checks of the official suite
}

// officially reports whether a check of the official suite is chosen.
func (c *choice) officially(id string) bool {
	fits := func(pattern string) bool { return wildcard(pattern, id) }
	return (len(c.only) == 0 || slices.ContainsFunc(c.only, fits)) && !slices.ContainsFunc(c.skip, fits)
}

// officials separates the patterns for the official suite's checks, whose names are only known after it has run.
func officials(patterns []string) (ours, theirs []string) {
	for _, p := range patterns {
		if strings.HasPrefix(p, official.Prefix) {
			theirs = append(theirs, p)
			continue
		}
		ours = append(ours, p)
	}
	return ours, theirs
}

// choose evaluates the flags that select checks.
func (f *conformanceFlags) choose(all []*suite.Check) (*choice, error) {
	c := &choice{}
	for _, name := range f.face {
		if !slices.Contains(faceNames(), name) {
			return nil, unknownWord("face", name, faceNames())
		}
		c.faces = append(c.faces, suitepeer.Face(name))
	}
	for _, name := range f.revision {
		if known := suite.From(""); !slices.Contains(known, name) {
			return nil, unknownWord("revision", name, known)
		}
		c.revisions = append(c.revisions, name)
	}
	var onlyOurs, skipOurs []string
	onlyOurs, c.only = officials(f.only)
	skipOurs, c.skip = officials(f.skip)
	if len(c.only)+len(c.skip) > 0 && !f.Official {
		return nil, usagef("checks of the official suite are run with --official alone; fix: add it, or leave %q out", value.Shorten(append(c.only, c.skip...)[0]))
	}
	only, err := picks(all, "only", onlyOurs)
	if err != nil {
		return nil, err
	}
	skip, err := picks(all, "skip", skipOurs)
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if skip[one] || !c.somewhere(one, "", "") {
			continue
		}
		c.tried = append(c.tried, one)
		if len(f.only) == 0 || only[one] {
			c.checks = append(c.checks, one)
		}
	}
	if len(c.checks) == 0 && len(c.only) == 0 {
		return nil, usagef("no check is left by --face, --revision, --only and --skip; fix: `%s` shows what there is", "dragoman conformance --list")
	}
	// Checks without Run validate the messages of all other checks, so those must run too.
	if !slices.ContainsFunc(c.checks, func(one *suite.Check) bool { return one.Run == nil }) {
		c.tried = c.checks
	}
	return c, nil
}

// somewhere reports whether a check applies to a selected face and revision; face and revision narrow the question unless
// "".
func (c *choice) somewhere(one *suite.Check, face, revision string) bool {
	for _, f := range one.Faces {
		if face != "" && face != string(f) || len(c.faces) > 0 && !slices.Contains(c.faces, f) {
			continue
		}
		if f == suitepeer.REST && revision == "" && (len(c.revisions) == 0 || slices.Contains(c.faces, f)) {
			return true
		}
		for _, r := range f.Revisions() {
			if (revision == "" || revision == r) && (len(c.revisions) == 0 || slices.Contains(c.revisions, r)) && one.At(f, r) {
				return true
			}
		}
	}
	return false
}

// picks returns the checks that the patterns match: ids or areas, with * as wildcard.
func picks(all []*suite.Check, flag string, patterns []string) (map[*suite.Check]bool, error) {
	picked := make(map[*suite.Check]bool)
	for _, pattern := range patterns {
		found := false
		for _, c := range all {
			if wildcard(pattern, c.ID) || wildcard(pattern, c.Area()) {
				picked[c], found = true, true
			}
		}
		if !found {
			var words []string
			for _, c := range all {
				words = append(words, c.ID, c.Area())
			}
			return nil, unknownWord(flag, pattern, words)
		}
	}
	return picked, nil
}

// wildcard reports whether text matches pattern, in which * matches anything.
func wildcard(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, parts[0])
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return ok && strings.HasSuffix(text, last)
}

// unknownWord returns the error of an unknown name.
func unknownWord(flag, word string, known []string) error {
	hint := "run `dragoman conformance --list` for all of them"
	if len(known) < 10 {
		hint = "write " + value.OneOf(known)
	}
	if near := value.Nearest(word, known); near != "" {
		hint = fmt.Sprintf("did you mean %s?", near)
	}
	return usagef("%s", value.WithFix(fmt.Sprintf("--%s: %q is not known", flag, value.Shorten(word)), hint))
}

var errTestInterrupted = errors.New("interrupted before the test was done")
