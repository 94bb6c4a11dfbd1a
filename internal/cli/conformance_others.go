package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"dragoman/conformance/intermediary"
	"dragoman/conformance/mock"
	"dragoman/conformance/suite"

	suitereport "dragoman/conformance/report"
)

// client tests a client.
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

// clientRuns is how many answers one run of a client may take the time of.
const clientRuns = 3

// errNothingInFront is that of an intermediary that nobody can talk to.
var errNothingInFront = errors.New("nothing of MCP answers in front of the intermediary; fix: does the command run by itself? say where clients find it with --front http://{listen}/PATH")

// intermediary tests what stands between clients and servers.
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
