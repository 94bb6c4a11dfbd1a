package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dragoman/conformance/mock"
	"dragoman/conformance/official"
	suitepeer "dragoman/conformance/peer"
	suitereport "dragoman/conformance/report"
	"dragoman/conformance/suite"
	"dragoman/internal/app"
	"dragoman/internal/app/logging"
	"dragoman/internal/config"
	"dragoman/internal/config/value"
)

// runConformance tests a server, a client or an intermediary, and writes the reports.
func runConformance(ctx context.Context, opt *ConformanceOptions, std app.Streams) error {
	t, err := newTester(opt, std)
	if err != nil {
		return failed(err)
	}
	defer t.close()
	run, test := &suitereport.Run{Version: app.ReadVersion().Version, Targets: opt.targets(), Expected: t.expected, Strict: opt.Strict, Hide: opt.hide()}, t.server
	switch {
	case opt.Client:
		test = t.client
	case opt.Intermediary:
		test = t.intermediary
	}
	run.Began = time.Now()
	err = test(ctx, run)
	run.Took = time.Since(run.Began)
	t.progress.End()
	switch {
	case ctx.Err() != nil && len(run.Findings) == 0:
		return failed(errTestInterrupted)
	case ctx.Err() != nil:
		run.Ended = "interrupted"
	case err != nil:
		return &exitError{exitNobody, err}
	}
	return t.tell(suitereport.New(*run))
}

// server runs the checks of a server.
func (t *tester) server(ctx context.Context, run *suitereport.Run) error {
	t.discover(ctx)
	if len(t.offers()) == 0 {
		return t.nobody()
	}
	run.Offers, run.Tried = t.offers(), t.absent()
	run.Findings = t.run(ctx)
	if t.Official {
		run.Findings = append(run.Findings, t.official(ctx)...)
	}
	return nil
}

// tester is one run of the suite.
type tester struct {
	*ConformanceOptions
	std      app.Streams
	doors    []*door
	expected *suitereport.Expectations
	progress *suitereport.Progress
}

// door is one way to reach the server: a URL, or the command.
type door struct {
	*suitepeer.Target
	name   string
	url    string // empty for the command
	offers []*suite.Offer
	tried  []string
}

func newTester(opt *ConformanceOptions, std app.Streams) (*tester, error) {
	t := &tester{ConformanceOptions: opt, std: std, progress: suitereport.NewProgress(nil)}
	if logging.Terminal(std.Err) {
		t.progress = suitereport.NewProgress(std.Err)
	}
	for _, f := range opt.reports {
		// Checked before the run, which takes a while.
		if _, err := os.Stat(filepath.Dir(f.path)); err != nil && f.path != "-" {
			return nil, fmt.Errorf("conformance: --%s %s cannot be written: %v; fix: name a file in a directory that there is", f.flag, f.path, value.Reason(err))
		}
	}
	for _, url := range opt.URLs {
		t.doors = append(t.doors, &door{name: value.RedactURL(url), url: url, Target: opt.reach(url)})
	}
	if len(opt.URLs) == 0 && !opt.Client && !opt.Intermediary {
		t.doors = []*door{{name: suitereport.Arguments(opt.Command), Target: &suitepeer.Target{Program: suitepeer.Command{Argv: opt.Command}, Timeout: opt.Timeout}}}
	}
	if opt.Expected != "" {
		if err := t.readExpected(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// reach returns the target for a URL: HTTP, or lines over a socket.
func (o *ConformanceOptions) reach(url string) *suitepeer.Target {
	out := &suitepeer.Target{Timeout: o.Timeout}
	if network, address, ok := (&config.Upstream{URL: url}).Socket(); ok {
		out.Program = suitepeer.Socket{Network: network, Address: address}
	} else {
		out.HTTP = suitepeer.NewHTTP(url, o.Headers, o.TLS)
	}
	return out
}

func (t *tester) close() {
	for _, d := range t.doors {
		if d.HTTP != nil {
			d.HTTP.Close()
		}
	}
}

func (t *tester) readExpected() error {
	in, err := os.Open(t.Expected)
	if err != nil {
		return fmt.Errorf("conformance: %s cannot be read: %v; fix: check the path", t.Expected, value.Reason(err))
	}
	defer func() { _ = in.Close() }()
	if t.expected, err = suitereport.ReadExpectations(t.Expected, in); err != nil {
		return fmt.Errorf("conformance: %w", err)
	}
	ids := checkIDs(allChecks())
	known := func(id string) bool { return slices.Contains(ids, id) || strings.HasPrefix(id, official.Prefix) }
	chosen := func(id, face, revision string) bool {
		if strings.HasPrefix(id, official.Prefix) {
			return t.Official && t.choice.officially(id)
		}
		if face != "" && !t.meets(suitepeer.Face(face)) {
			return false // the list may be for a server that is tested in both ways
		}
		at := slices.IndexFunc(t.choice.checks, func(c *suite.Check) bool { return c.ID == id })
		return at >= 0 && t.here(t.choice.checks[at]) && t.choice.somewhere(t.choice.checks[at], face, revision)
	}
	t.expected.Select(known, chosen, func(typed string) string { return value.Nearest(typed, ids) })
	return nil
}

// here reports whether a check applies to a face that this run may find.
func (t *tester) here(c *suite.Check) bool { return slices.ContainsFunc(c.Faces, t.meets) }

// meets reports whether the target, URLs or a command, may have a face.
func (t *tester) meets(f suitepeer.Face) bool {
	if t.Client {
		return mock.Tests(t.Command, t.choice.faces, f)
	}
	return t.Intermediary || slices.ContainsFunc(t.doors, func(d *door) bool { return f.Stdio() == (d.Program != nil) })
}

// discoverySteps limits the discovery of a face, as a multiple of the time for one answer.
const discoverySteps = 6

// discover finds out what the server offers. Each face has its own time limit, so that one that hangs does not hide the
// others.
func (t *tester) discover(ctx context.Context) {
	seen := make(map[string]bool)
	for _, d := range t.doors {
		for _, face := range suitepeer.Faces() {
			if len(t.choice.faces) > 0 && !slices.Contains(t.choice.faces, face) {
				continue
			}
			if face == suitepeer.REST && len(t.choice.revisions) > 0 && len(t.choice.faces) == 0 {
				continue // REST has no revision
			}
			t.progress.Say("looking for " + string(face) + " at " + d.name)
			limited, cancel := context.WithTimeout(ctx, discoverySteps*t.Timeout)
			offers, tried := suite.Discover(limited, d.Target, []suitepeer.Face{face}, t.choice.revisions)
			cancel()
			d.tried = append(d.tried, tried...)
			for _, o := range offers {
				if place := string(o.Face) + "@" + o.Revision; !seen[place] {
					seen[place] = true
					d.offers = append(d.offers, o)
				}
			}
		}
	}
}

func (t *tester) offers() (all []*suite.Offer) {
	for _, d := range t.doors {
		all = append(all, d.offers...)
	}
	return all
}

// absent lists the faces that were found at no door, with the reasons.
func (t *tester) absent() (all []string) {
	for _, d := range t.doors {
		for _, why := range d.tried {
			face, _, _ := strings.Cut(why, ":")
			if slices.ContainsFunc(t.offers(), func(o *suite.Offer) bool { return string(o.Face) == face }) {
				continue
			}
			if len(t.doors) > 1 {
				why = d.name + ": " + why
			}
			all = append(all, why)
		}
	}
	return all
}

// What may be wrong if no server was found.
const (
	fixURL     = "is the server there, and is the path right (mostly /mcp)? give credentials with --header, more time with --timeout"
	fixCommand = "does the command run by itself, and does it write nothing but messages to its standard output? give it more time with --timeout"
)

// wantsCredentials finds the statuses of HTTP by which a server asks for credentials in what is told of its answers.
var wantsCredentials = regexp.MustCompile(`\b(with|HTTP|status) (401|403|407)\b`)

// nobody returns the error of a test that has found no server.
func (t *tester) nobody() error {
	what := strings.Join(t.targets(), ", ")
	absent := t.absent()
	if len(absent) == 0 {
		return fmt.Errorf("conformance: %s has nothing of what --face and --revision ask for; fix: leave them out to see what there is", what)
	}
	fix := fixURL
	switch {
	case slices.ContainsFunc(absent, func(line string) bool { return wantsCredentials.MatchString(line) }):
		fix = "the server wants credentials: give them with --header"
	case len(t.URLs) == 0:
		fix = fixCommand
	case t.linesOnly():
		fix = "does the server listen there, and does it speak messages as lines? over HTTP write http://HOST/PATH; give it more time with --timeout"
	}
	return errors.New(t.hide().Text(fmt.Sprintf("conformance: nothing of MCP answers at %s:\n  %s\nfix: %s", what, strings.Join(absent, "\n  "), fix)))
}

// run runs the checks at all doors.
func (t *tester) run(ctx context.Context) (findings []*suite.Finding) {
	for _, d := range t.doors {
		o := suite.Options{Checks: t.choice.tried, Jobs: t.Jobs, Shape: suite.ServerShape, Progress: t.progress.Done}
		for _, f := range suite.Run(ctx, d.Target, d.offers, o) {
			if slices.Contains(t.choice.checks, f.Check) {
				findings = append(findings, f)
			}
		}
	}
	return findings
}

// tell writes the reports and returns the result as an error.
func (t *tester) tell(r *suitereport.Report) error {
	var files []reportFile
	for _, f := range t.reports {
		files = append(files, reportFile{f.path, func(w io.Writer) error { return f.write(r, w) }})
	}
	people, err := writeReports(t.std, files...)
	if err != nil {
		return err
	}
	if err := r.Terminal(people, suitereport.Style{Colour: t.Colour(people), Verbose: t.Verbose}); err != nil {
		return failed(err)
	}
	switch {
	case len(r.Findings) == 0:
		return failed(errors.New("conformance: no check was tried: those that were chosen are for nothing that this server has; fix: choose others with --only, --face and --revision"))
	case !r.OK:
		return &exitError{code: ExitFailed}
	}
	return nil
}

// targets returns the names of what is tested, without secrets.
func (o *ConformanceOptions) targets() (names []string) {
	for _, u := range o.URLs {
		names = append(names, value.RedactURL(u))
	}
	if len(names) == 0 {
		names = []string{suitereport.Arguments(o.Command)}
	}
	return names
}

// hide returns the secrets that no report may contain.
func (o *ConformanceOptions) hide() suitereport.Hide {
	h := suitereport.Hide{URLs: o.URLs}
	for _, f := range o.Headers {
		h.Values = append(h.Values, f.Value)
	}
	return h
}

// conformanceTell lists the checks, or explains one.
func (p *program) conformanceTell(c *cobra.Command, f *conformanceFlags, args []string) error {
	if len(args) > 0 {
		return usagef("unexpected argument %q; fix: write `%s --list` or `%s --explain ID`", value.Shorten(args[0]), c.CommandPath(), c.CommandPath())
	}
	all := allChecks()
	if f.explain != "" {
		for _, one := range all {
			if one.ID == f.explain {
				return failed(suitereport.Tell(one).Explain(p.std.Out))
			}
		}
		return unknownWord("explain", f.explain, checkIDs(all))
	}
	picked, err := f.choose(all)
	if err != nil {
		return err
	}
	catalogue := suitereport.NewCatalogue(picked.checks)
	if dir, pages := directory(f.markdown); pages {
		if err := catalogue.WritePages(dir); err != nil {
			return failed(fmt.Errorf("conformance: the pages cannot be written to %s: %v; fix: name a directory that can be written to", dir, value.Reason(err)))
		}
		if f.markdown = ""; f.json == "" {
			return nil
		}
	}
	return p.tell(f, catalogue.List, catalogue.JSON, catalogue.Markdown)
}

// directory reports whether path is a directory: it ends in a slash, or it exists as one. It returns the path without the
// slash.
func directory(path string) (string, bool) {
	if dir, ok := strings.CutSuffix(path, "/"); ok && dir != "" {
		return dir, true
	}
	about, err := os.Stat(path)
	return path, err == nil && about.IsDir()
}

// conformanceDiff compares two reports.
func (p *program) conformanceDiff(f *conformanceFlags, args []string) error {
	if len(args) != 2 {
		return usagef("--diff takes two reports, and %d are given; fix: write `dragoman conformance --diff OLD.json NEW.json`", len(args))
	}
	var both [2]*suitereport.Report
	for i, path := range args {
		in, err := os.Open(path)
		if err != nil {
			return failed(fmt.Errorf("conformance: %s cannot be read: %v; fix: write one with `dragoman conformance --json=FILE`", path, value.Reason(err)))
		}
		both[i], err = suitereport.Read(in)
		_ = in.Close()
		if err != nil {
			return failed(fmt.Errorf("conformance: %s %w", path, err))
		}
	}
	d := suitereport.Compare(both[0], both[1])
	text := func(w io.Writer) error { return d.Terminal(w, logging.Colourful(w, p.environ)) }
	if err := p.tell(f, text, d.JSON, d.Markdown); err != nil {
		return err
	}
	if len(d.Failing) > 0 {
		return &exitError{code: ExitFailed}
	}
	return nil
}

// tell writes the requested JSON and Markdown; without either, the text goes to standard output.
func (p *program) tell(f *conformanceFlags, text, asJSON, asMarkdown func(io.Writer) error) error {
	if f.json != "" && f.json == f.markdown {
		return usagef("both --json and --markdown write to %s; fix: name another file", f.json)
	}
	if f.json == "" && f.markdown == "" {
		return failed(text(p.std.Out))
	}
	_, err := writeReports(p.std, reportFile{f.json, asJSON}, reportFile{f.markdown, asMarkdown})
	return err
}

// jsonReport adds --json[=FILE]. Without a FILE it means what it means for every command: JSON on standard output.
func jsonReport(flags *pflag.FlagSet, path *string) {
	flags.VarPF(optionalFile{path}, "json", "", "the report as JSON: on standard output, or `[=FILE]`").NoOptDefVal = "true"
}

// misplacedFile returns an error if the file of --json stands apart from it, where it would be taken for a URL.
func misplacedFile(path string, args []string) error {
	if len(args) > 0 && path == "-" && strings.HasSuffix(args[0], ".json") {
		return usagef("%s is no URL, and --json takes its file behind a =; fix: write --json=%s", mistaken(args[0]), value.Shorten(args[0]))
	}
	return nil
}

// optionalFile is a flag whose value may be left out. pflag's help shows no default for a bool.
type optionalFile struct{ path *string }

func (f optionalFile) String() string { return "" }
func (f optionalFile) Type() string   { return "bool" }

func (f optionalFile) Set(text string) error {
	*f.path = text
	if text == "true" {
		*f.path = "-"
	}
	return nil
}

// reportFile is a report to write, to standard output if path is "-". An empty path means that it is not wanted.
type reportFile struct {
	path  string
	write func(io.Writer) error
}

// writeReports writes reports. The text for people goes to the stream that it returns: standard error if a report uses
// standard output.
func writeReports(std app.Streams, files ...reportFile) (people io.Writer, err error) {
	people = std.Out
	for _, f := range files {
		switch f.path {
		case "":
			continue
		case "-":
			people = std.Err
		}
		if err := writeOut(std, f.path, f.write); err != nil {
			return nil, failed(err)
		}
	}
	return people, nil
}

// writeOut writes to a file, or to standard output for "-".
func writeOut(std app.Streams, path string, write func(io.Writer) error) error {
	if path == "-" {
		return write(std.Out)
	}
	out, err := os.Create(path)
	if err == nil {
		err = write(out)
		if closed := out.Close(); err == nil {
			err = closed
		}
	}
	if err != nil {
		return fmt.Errorf("%s cannot be written: %v; fix: name a file in a directory that there is", path, value.Reason(err))
	}
	return nil
}
