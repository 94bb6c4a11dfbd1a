// Package official runs the official conformance suite, an npm package, at a server over HTTP and returns its results as findings like
// those of our own checks.
package official

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-json"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// Version is the version of the suite, unless Options.Command names another.
const Version = "0.2.0-alpha.12"

// Prefix is the prefix of the ids of its checks.
const Prefix = "official."

// maxResults is the maximum size of a file of results, in bytes.
const maxResults = 32 << 20

// Options configures a run.
type Options struct {
	URL      string   // streamable HTTP; write localhost, not 127.0.0.1: the suite derives from it which Host fields are the server's own
	Revision string   // at which it is run
	Command  []string // that starts the suite; empty: npx with the package of Version
	Timeout  time.Duration
}

// result is one check in the suite's output.
type result struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	Description  string `json:"description"`
	Status       string `json:"status"`
	ErrorMessage string `json:"errorMessage"`
	References   []struct {
		ID  string `json:"id"`
		URL string `json:"url"`
	} `json:"specReferences"`
}

// Run runs the suite. It returns an error if the suite cannot be started or ran nothing.
func Run(ctx context.Context, o Options) ([]*suite.Finding, error) {
	if len(o.Command) == 0 {
		o.Command = []string{"npx", "--yes", "@modelcontextprotocol/conformance@" + Version}
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	dir, err := os.MkdirTemp("", "dragoman-official")
	if err != nil {
		return nil, fmt.Errorf("official: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	argv := append(slices.Clone(o.Command), "server", "--url", o.URL, "--suite", "all", "--spec-version", o.Revision, "-o", dir)
	printed, err := o.run(ctx, argv)
	if err != nil {
		return nil, err
	}
	found, err := Read(dir, o.Revision, printed)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("official: the suite ran nothing; it said last: %s", strings.Join(printed[max(0, len(printed)-5):], " | "))
	}
	return found, err
}

// maxPrinted limits the lines of the suite's output that are kept.
const maxPrinted = 20000

// run runs a command to its end and returns its output.
func (o *Options) run(ctx context.Context, argv []string) (printed []string, err error) {
	child, err := peer.StartChild(ctx, peer.Command{Argv: argv, Grace: time.Second}, nil)
	if err != nil {
		return nil, fmt.Errorf("official: the suite cannot be started: %w; it needs Node.js 22 or later with npx, or name a command that starts it", err)
	}
	defer child.Close()
	for {
		line, err := child.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return printed, fmt.Errorf("official: the suite did not end in time: %w", ctx.Err())
			}
			child.Close() // stderr may end after the output
			return append(printed, child.Stderr()...), nil
		}
		if len(printed) < maxPrinted {
			printed = append(printed, line)
		}
	}
}

var (
	resultDir = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$`) })
	running   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^=== Running scenario: (.+?) ===`) })
)

// Read reads the results that the suite has written into a directory. It returns a finding for each check of each scenario, the worst one if
// the check was reported several times, a skipped one for each scenario without judgements, and a broken one for each without a result.
func Read(dir, revision string, printed []string) ([]*suite.Finding, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("official: %w", err)
	}
	var out []*suite.Finding
	seen := make(map[string]bool)
	for _, e := range entries {
		m := resultDir().FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		raw, err := readBounded(filepath.Join(dir, e.Name(), "checks.json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var results []result
		if err == nil {
			err = json.Unmarshal(raw, &results)
		}
		if err != nil {
			return nil, fmt.Errorf("official: the results of scenario %s: %w", m[1], err)
		}
		seen[m[1]] = true
		found := findings(m[1], revision, results)
		if len(results) > 0 && len(found) == 0 { // INFO lines only, such as for a server without sessions
			found = []*suite.Finding{{Check: whole(m[1]), Face: face(revision), Revision: revision, Outcome: suite.Skipped, Reason: "the scenario judged nothing"}}
		}
		out = append(out, found...)
	}
	for _, line := range printed {
		if m := running().FindStringSubmatch(line); m != nil && !seen[m[1]] {
			seen[m[1]] = true
			why := "it left no result"
			for _, said := range printed {
				if strings.HasPrefix(said, "Failed to run scenario "+m[1]+":") {
					why = said
				}
			}
			out = append(out, &suite.Finding{Check: whole(m[1]), Face: face(revision), Revision: revision, Outcome: suite.Broken, Reason: why})
		}
	}
	slices.SortStableFunc(out, func(a, b *suite.Finding) int { return strings.Compare(a.Check.ID, b.Check.ID) })
	return out, nil
}

func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxResults {
		return nil, fmt.Errorf("a file over %d bytes", maxResults)
	}
	return os.ReadFile(path) //nolint:gosec // in a directory that we have made
}

// face returns the face that the suite tests.
func face(revision string) peer.Face {
	if revision >= peer.R2607 {
		return peer.ModernHTTP
	}
	return peer.LegacyHTTP
}

// outcomes maps the suite's statuses. INFO is no judgement.
var outcomes = map[string]suite.Outcome{"SUCCESS": suite.Passed, "FAILURE": suite.Failed, "WARNING": suite.Warned, "SKIPPED": suite.Skipped}

// worse orders outcomes.
var worse = []suite.Outcome{suite.Skipped, suite.Passed, suite.Warned, suite.Failed}

// findings returns the findings of one scenario.
func findings(scenario, revision string, results []result) (out []*suite.Finding) {
	byID := make(map[string]*suite.Finding)
	for _, r := range results {
		outcome, ok := outcomes[r.Status]
		if !ok {
			continue
		}
		f := byID[r.ID]
		if f == nil {
			f = &suite.Finding{Check: describe(scenario, r), Face: face(revision), Revision: revision, Outcome: outcome}
			byID[r.ID] = f
			out = append(out, f)
		} else if slices.Index(worse, outcome) > slices.Index(worse, f.Outcome) {
			f.Outcome = outcome
		}
		switch outcome {
		case suite.Failed, suite.Warned:
			f.Problems = append(f.Problems, suite.Problem{Expected: r.Description, Got: r.ErrorMessage})
		case suite.Skipped:
			f.Reason = r.ErrorMessage
		}
	}
	return out
}

// whole returns a check that stands for all checks of a scenario.
func whole(scenario string) *suite.Check {
	return describe(scenario, result{ID: "scenario", Name: scenario, Description: "The scenario " + scenario})
}

// describe returns a check of the suite as one of ours.
func describe(scenario string, r result) *suite.Check {
	c := &suite.Check{ID: Prefix + scenario + ":" + r.ID, Title: r.Name, Level: suite.Must, Statement: r.Description, Faces: []peer.Face{peer.ModernHTTP, peer.LegacyHTTP},
		Why: "The official suite finds it.", Fix: "See what the suite says, and the page."}
	var pages []string
	for _, p := range r.References {
		pages = append(pages, strings.TrimSpace(p.ID+" "+p.URL))
	}
	c.Page = strings.Join(pages, ", ")
	return c
}
