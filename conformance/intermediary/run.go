package intermediary

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"sync"
	"time"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// Options configures a run.
type Options struct {
	Argv    []string    // the intermediary's command, with {listen}, {upstream} and {command} in it
	Fronts  []string    // its URLs, with {listen} in them; empty: http://{listen}/mcp
	Fixture []string    // the command of the fixture behind it, to which --era ERA and --http HOST:PORT are added
	Headers peer.Fields // of clients' requests to the intermediary
	TLS     *tls.Config // towards it
	Timeout time.Duration
	Faces   []peer.Face // empty: all
	Suite   suite.Options
	// Began is called for each kind before its checks run; may be nil.
	Began func(k Kind, offers []*suite.Offer)
}

// Cell is the outcome for one kind of server behind the intermediary.
type Cell struct {
	Behind   Kind
	Offers   []*suite.Offer
	Tried    []string // faces that it does not have, with the errors
	Findings []*suite.Finding
}

// Run tests the intermediary with each kind in turn. It returns an error if the fixture or the intermediary cannot be started; faults of a
// running intermediary are findings.
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

// cell tests the intermediary with one kind.
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
	argv := fill(o.Argv, listen, upstream, slices.Concat(o.Fixture, []string{"--era", k.Era}))
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

// front runs the checks at all faces of one target in front.
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

// compare judges a finding behind an intermediary by the finding of the same check without one, which is nil if the fixture does not have
// this face.
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

// direct runs the checks at the fixture itself, once for each face.
type direct struct {
	options Options

	mu    sync.Mutex
	known map[peer.Face]map[string]*suite.Finding
}

// at returns the findings at a face, by key; none for a face that the fixture does not have.
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
	target := &peer.Target{Program: peer.Command{Argv: slices.Concat(o.Fixture, []string{"--era", k.Era})}, Timeout: o.Timeout}
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

// fixture starts a server of a kind over HTTP and returns its URL. Over stdio it starts nothing.
func (o *Options) fixture(ctx context.Context, k Kind) (url string, end func(), err error) {
	if !k.HTTP {
		return "", func() {}, nil
	}
	address, err := peer.FreePort()
	if err != nil {
		return "", nil, err
	}
	p, err := peer.StartService(ctx, slices.Concat(o.Fixture, []string{"--era", k.Era, "--http", address}), address)
	if err != nil {
		return "", nil, err
	}
	return "http://" + address + "/mcp", p.End, nil
}
