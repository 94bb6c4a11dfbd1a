package intermediary

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"time"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// Options are those of a run.
type Options struct {
	Argv    []string    // the intermediary's command, with {listen}, {upstream} and {command} in it
	Fronts  []string    // where clients find it, with {listen} in it; empty: http://{listen}/mcp
	Fixture []string    // the command of the fixture that stands behind it: --era ERA and --http HOST:PORT are added
	Headers peer.Fields // of clients' requests to the intermediary
	TLS     *tls.Config // towards it
	Timeout time.Duration
	Faces   []peer.Face // empty: all
	Suite   suite.Options
	// Began is told of each kind before it is tried; nil: nobody is.
	Began func(k Kind, offers []*suite.Offer)
}

// Cell is the outcome for one kind of server behind the intermediary.
type Cell struct {
	Behind   Kind
	Offers   []*suite.Offer
	Tried    []string // faces that it has not, and what came there
	Findings []*suite.Finding
}

// Run tries each kind in turn. An error is one of the fixture, or of an intermediary that cannot be started; what an intermediary does
// wrong once it runs is in the findings.
func Run(ctx context.Context, o Options) ([]*Cell, error) {
	kinds, err := Check(o.Argv)
	if err != nil {
		return nil, err
	}
	alone := &direct{options: o, known: make(map[peer.Face]map[string]*suite.Finding)}
	var cells []*Cell
	for _, k := range kinds {
		cell, err := o.cell(ctx, k, alone)
		if err != nil {
			return cells, fmt.Errorf("intermediary: %s behind it: %w", k, err)
		}
		cells = append(cells, cell)
	}
	return cells, nil
}

// cell tries one kind.
func (o *Options) cell(ctx context.Context, k Kind, alone *direct) (*Cell, error) {
	upstream, end, err := o.fixture(ctx, k)
	if err != nil {
		return nil, err
	}
	defer end()
	listen, err := peer.FreePort()
	if err != nil {
		return nil, err
	}
	argv := fill(o.Argv, listen, upstream, append(append([]string(nil), o.Fixture...), "--era", k.Era))
	cell := &Cell{Behind: k}
	targets := []*peer.Target{{Program: peer.Command{Argv: argv}, Timeout: o.Timeout}}
	if listens(o.Argv) {
		p, err := peer.StartService(ctx, argv, listen)
		if err != nil {
			return nil, err
		}
		defer p.End()
		targets = nil
		for _, url := range fronts(o.Fronts, listen) {
			h := peer.NewHTTP(url, o.Headers, o.TLS)
			defer h.Close()
			targets = append(targets, &peer.Target{HTTP: h, Timeout: o.Timeout})
		}
	}
	for _, target := range targets {
		if err := o.front(ctx, cell, target, alone); err != nil {
			return nil, err
		}
	}
	return cell, nil
}

// front tries all that is found at one place in front.
func (o *Options) front(ctx context.Context, cell *Cell, target *peer.Target, alone *direct) error {
	offers, tried := suite.Discover(ctx, target, o.Faces, nil)
	cell.Tried = append(cell.Tried, tried...)
	if o.Began != nil {
		o.Began(cell.Behind, offers)
	}
	findings := suite.Run(ctx, target, offers, o.Suite)
	for _, f := range findings {
		before, err := alone.at(ctx, f.Face)
		if err != nil {
			return err
		}
		f.Behind = cell.Behind.Name
		compare(f, before[f.Key()])
		cell.Behind.excuse(f)
	}
	cell.Offers = append(cell.Offers, offers...)
	cell.Findings = append(cell.Findings, findings...)
	return nil
}

// compare judges what was found behind an intermediary by what the same check finds without one; nil: nothing, for no face of the
// fixture's own is of this kind.
func compare(f, alone *suite.Finding) {
	if alone == nil {
		return
	}
	switch {
	case f.Outcome == suite.Skipped && alone.Outcome == suite.Passed:
		f.Outcome = suite.Failed
		f.Problems = []suite.Problem{{Expected: "what the server offers without the intermediary", Got: f.Reason}}
		f.Reason = ""
	case f.Outcome == alone.Outcome && f.Outcome != suite.Passed && f.Outcome != suite.Skipped:
		f.Outcome, f.Reason = suite.Skipped, "the server behind it does so as well"
	}
}

// direct returns the findings at the fixture itself, by face. It runs the checks once.
type direct struct {
	options Options

	mu    sync.Mutex
	known map[peer.Face]map[string]*suite.Finding
}

// at gives the findings at a face, by key; none for a face that the fixture has not.
func (d *direct) at(ctx context.Context, face peer.Face) (map[string]*suite.Finding, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if found, ok := d.known[face]; ok {
		return found, nil
	}
	o := d.options
	k := Kind{string(face), "legacy", !face.Stdio()}
	if face.Modern() {
		k.Era = "modern"
	}
	target := &peer.Target{Program: peer.Command{Argv: append(append([]string(nil), o.Fixture...), "--era", k.Era)}, Timeout: o.Timeout}
	if k.HTTP {
		url, end, err := o.fixture(ctx, k)
		if err != nil {
			return nil, err
		}
		defer end()
		h := peer.NewHTTP(url, nil, nil)
		defer h.Close()
		target = &peer.Target{HTTP: h, Timeout: o.Timeout}
	}
	offers, _ := suite.Discover(ctx, target, []peer.Face{face}, nil)
	quiet := o.Suite
	quiet.Progress = nil
	found := make(map[string]*suite.Finding)
	for _, f := range suite.Run(ctx, target, offers, quiet) {
		found[f.Key()] = f
	}
	d.known[face] = found
	return found, nil
}

// fixture starts a server of a kind over HTTP, and gives its URL; over stdio there is nothing to start.
func (o *Options) fixture(ctx context.Context, k Kind) (url string, end func(), err error) {
	if !k.HTTP {
		return "", func() {}, nil
	}
	address, err := peer.FreePort()
	if err != nil {
		return "", nil, err
	}
	p, err := peer.StartService(ctx, append(append([]string(nil), o.Fixture...), "--era", k.Era, "--http", address), address)
	if err != nil {
		return "", nil, err
	}
	return "http://" + address + "/mcp", p.End, nil
}
