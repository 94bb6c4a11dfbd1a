package intermediary

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// readyTime is for a program until it answers.
const readyTime = 30 * time.Second

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
	Kinds   []Kind // empty: all that the command can have behind it
	// Began is told of each kind before it is tried; nil: nobody is.
	Began func(k Kind, offers []*suite.Offer)
}

// Cell is what came of one kind of server behind the intermediary.
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
	if len(o.Kinds) > 0 {
		kinds = o.Kinds
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
	listen, err := freePort()
	if err != nil {
		return nil, err
	}
	argv := fill(o.Argv, listen, upstream, append(append([]string(nil), o.Fixture...), "--era", k.Era))
	cell := &Cell{Behind: k}
	targets := []*peer.Target{{Program: peer.Command{Argv: argv}, Timeout: o.Timeout}}
	if listens(o.Argv) {
		p, err := run(ctx, argv)
		if err != nil {
			return nil, err
		}
		defer p.end()
		targets = nil
		for _, url := range fronts(o.Fronts, listen) {
			h := peer.NewHTTP(url, o.Headers, o.TLS)
			defer h.Close()
			targets = append(targets, &peer.Target{HTTP: h, Timeout: o.Timeout})
		}
		if err := p.ready(ctx, listen); err != nil {
			return nil, err
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

// direct is what the checks find at the fixture itself, by face, once.
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
	address, err := freePort()
	if err != nil {
		return "", nil, err
	}
	p, err := run(ctx, append(append([]string(nil), o.Fixture...), "--era", k.Era, "--http", address))
	if err != nil {
		return "", nil, err
	}
	if err := p.ready(ctx, address); err != nil {
		p.end()
		return "", nil, err
	}
	return "http://" + address + "/mcp", p.end, nil
}

// program is one that runs and listens.
type program struct {
	name  string
	lines peer.Lines
	read  sync.WaitGroup
	gone  chan struct{}

	mu   sync.Mutex
	last []string // of what it has said
}

// keptLines is how much of what a program says is kept for an error.
const keptLines = 10

func run(ctx context.Context, argv []string) (*program, error) {
	p := &program{name: argv[0], gone: make(chan struct{})}
	lines, err := peer.Command{Argv: argv, Grace: time.Millisecond}.Spawn(ctx, p.said) // it does not wait for its stdin
	if err != nil {
		return nil, err
	}
	p.lines = lines
	p.read.Go(func() {
		defer close(p.gone)
		for {
			line, err := lines.ReadLine()
			if err != nil {
				return
			}
			p.said(string(line))
		}
	})
	return p, nil
}

func (p *program) said(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last = append(p.last, line); len(p.last) > keptLines {
		p.last = p.last[1:]
	}
}

func (p *program) end() {
	p.lines.Stop()
	p.read.Wait()
}

// ready waits until somebody listens at an address.
func (p *program) ready(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var d net.Dialer
	for {
		c, err := d.DialContext(ctx, "tcp", address)
		if err == nil {
			return c.Close()
		}
		select {
		case <-tick.C:
		case <-p.gone:
			return p.failed("has ended before it listened at " + address)
		case <-ctx.Done():
			return p.failed("does not listen at " + address)
		}
	}
}

func (p *program) failed(what string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := p.name + " " + what
	if len(p.last) > 0 {
		text += "; it said last: " + strings.Join(p.last, " | ")
	}
	return errors.New(text)
}

// freePort is an address of loopback at which nobody listens.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}
