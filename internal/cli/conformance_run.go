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
