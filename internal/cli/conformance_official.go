package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"dragoman/conformance/intermediary"
	"dragoman/conformance/mock"
	"dragoman/conformance/official"
	suitepeer "dragoman/conformance/peer"
	suitereport "dragoman/conformance/report"
	"dragoman/conformance/suite"
)

// official runs the official suite at every revision that the server speaks over HTTP. The suite does not speak stdio and
// HTTP+SSE; for these a Dragoman is started in between. A failure to run the suite is a finding too.
func (t *tester) official(ctx context.Context) (findings []*suite.Finding) {
	met := make(map[string]bool)
	for _, d := range t.doors {
		for _, direct := range []bool{true, false} {
			offers := slices.DeleteFunc(slices.Clone(d.offers), func(o *suite.Offer) bool {
				return o.Revision < suitepeer.R2503 || met[o.Revision] || direct != (o.Face == suitepeer.ModernHTTP || o.Face == suitepeer.LegacyHTTP)
			})
			if len(offers) > 0 {
				findings = append(findings, t.officialAt(ctx, d, offers, direct)...)
			}
			for _, o := range offers {
				met[o.Revision] = true
			}
		}
	}
	return slices.DeleteFunc(findings, func(f *suite.Finding) bool { return !t.choice.officially(f.Check.ID) })
}

// officialAt runs the suite at some offers of a door.
func (t *tester) officialAt(ctx context.Context, d *door, offers []*suite.Offer, direct bool) (findings []*suite.Finding) {
	var at string
	var unreached error
	var end func()
	if direct {
		at, end, unreached = t.through(d)
	} else {
		at, end, unreached = t.between(ctx, d)
	}
	if unreached == nil {
		defer end()
	}
	for _, o := range offers {
		t.progress.Say("the official suite at " + o.Revision)
		var found []*suite.Finding
		err := unreached
		if err == nil {
			found, err = official.Run(ctx, official.Options{URL: at, Revision: o.Revision, Command: t.OfficialCommand})
		}
		if err != nil {
			found = []*suite.Finding{{Check: officialSuite(), Outcome: suite.Broken, Reason: err.Error(), Revision: o.Revision}}
		}
		for _, f := range found {
			f.Face = o.Face
			findings = append(findings, f)
		}
	}
	return findings
}

// officialSuite is the check for running the suite as a whole.
func officialSuite() *suite.Check {
	return &suite.Check{ID: official.Prefix + "suite", Title: "The official suite runs", Level: suite.Must, Faces: suitepeer.Faces(), Page: "@modelcontextprotocol/conformance " + official.Version,
		Statement: "The official suite can be run at the server.", Why: "What it looks at was not looked at.",
		Fix: "Install Node.js 22 or later, or name the words that start the suite with --official-command."}
}

// localhost replaces the host 127.0.0.1 of a URL with localhost: the official suite derives from the name which Host
// headers the server must refuse.
func localhost(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() != "127.0.0.1" {
		return raw
	}
	port := u.Port()
	if u.Host = "localhost"; port != "" {
		u.Host += ":" + port
	}
	return u.String()
}

// through returns a URL for a program that can neither send --header nor trust --ca-file: the URL of a relay if either is
// set.
func (t *tester) through(d *door) (at string, end func(), err error) {
	if len(t.Headers) == 0 && t.TLS == nil {
		return localhost(d.HTTP.URL), func() {}, nil
	}
	relay, err := suitepeer.NewRelay(d.HTTP)
	if err != nil {
		return "", nil, fmt.Errorf("conformance: the relay between the official suite and the server: %w", err)
	}
	return relay.URL, relay.Close, nil
}

// between starts a Dragoman in front of a door, for a program that speaks streamable HTTP only.
func (t *tester) between(ctx context.Context, d *door) (at string, end func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, fmt.Errorf("conformance: %w", err)
	}
	address, err := suitepeer.FreePort()
	if err != nil {
		return "", nil, fmt.Errorf("conformance: %w", err)
	}
	argv, done := []string{self, "serve", "--listen", address, "--admin", "off", "--log-level", "error"}, func() {}
	switch {
	case d.HTTP != nil:
		var to string
		if to, done, err = t.through(d); err != nil {
			return "", nil, err
		}
		argv = append(argv, to)
	case d.url != "":
		argv = append(argv, d.url)
	default:
		argv = append(append(argv, "--"), t.Command...)
	}
	s, err := suitepeer.StartService(ctx, argv, address)
	if err != nil {
		done()
		return "", nil, fmt.Errorf("conformance: the Dragoman between the official suite and the server: %w", err)
	}
	return localhost("http://" + address + "/mcp"), func() { s.End(); done() }, nil
}

// client runs the checks of a client.
func (t *tester) client(ctx context.Context, run *suitereport.Run) (err error) {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("conformance: %w", err)
	}
	o := mock.Options{Argv: t.Command, Server: []string{self, mock.RelayWord}, Faces: t.choice.faces, Revisions: t.choice.revisions, Timeout: clientRuns * t.Timeout,
		Wanted: func(id string) bool {
			return slices.ContainsFunc(t.choice.checks, func(c *suite.Check) bool { return c.ID == id })
		},
		Shape: suite.ClientShape,
		Progress: func(done, total int, scenario string, _ []*suite.Finding) {
			t.progress.Say(fmt.Sprintf("%d of %d  %s", done, total, scenario))
		}}
	run.Findings, err = mock.Run(ctx, o)
	return err
}

// clientRuns limits the time of one run of a client, as a multiple of the time for one answer.
const clientRuns = 3

// errNothingInFront is the error of an intermediary that does not answer.
var errNothingInFront = errors.New("nothing of MCP answers in front of the intermediary; fix: does the command run by itself? say where clients find it with --front http://{listen}/PATH")

// intermediary runs the checks of an intermediary.
func (t *tester) intermediary(ctx context.Context, run *suitereport.Run) error {
	o := intermediary.Options{Argv: t.Command, Fronts: t.Fronts, Fixture: t.Fixture, Headers: t.Headers, TLS: t.TLS, Timeout: t.Timeout, Faces: t.choice.faces,
		Suite: suite.Options{Checks: t.choice.tried, Jobs: t.Jobs, Shape: suite.ServerShape, Progress: t.progress.Done},
		Began: func(k intermediary.Kind, _ []*suite.Offer) {
			t.progress.Say(k.Name + " behind it")
		}}
	cells, err := intermediary.Run(ctx, o)
	if err != nil {
		return fmt.Errorf("conformance: %w", err)
	}
	offered := 0
	for _, c := range cells {
		offered += len(c.Offers)
		for _, why := range c.Tried {
			run.Tried = append(run.Tried, c.Behind.Name+" behind it: "+why)
		}
		for _, f := range c.Findings {
			if slices.Contains(t.choice.checks, f.Check) && (len(t.choice.revisions) == 0 || slices.Contains(t.choice.revisions, f.Revision)) {
				run.Findings = append(run.Findings, f)
			}
		}
	}
	if offered == 0 {
		return fmt.Errorf("conformance: %w:\n  %s", errNothingInFront, strings.Join(run.Tried, "\n  "))
	}
	return nil
}
