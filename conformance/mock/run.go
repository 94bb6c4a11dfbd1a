package mock

import (
	"context"
	"fmt"
	"slices"
	"time"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// Default times of the mock.
const (
	usualPatience = 2 * time.Second // for the answer to a request
	usualSlow     = time.Second     // before the slow tool answers
	usualSettle   = time.Second     // for a process to exit after the client
)

// Run runs the client once for each scenario, face and revision, and returns the findings. It returns an error if the command cannot be
// started.
func Run(ctx context.Context, o Options) ([]*suite.Finding, error) {
	type one struct {
		s        *Scenario
		face     peer.Face
		revision string
	}
	var all []one
	for _, face := range Faces() {
		if !Tests(o.Argv, o.Faces, face) {
			continue
		}
		for _, revision := range face.Revisions() {
			for _, s := range Scenarios() {
				if s.at(face, revision) && wanted(o.Revisions, revision) && wanted(o.Scenarios, s.Name) && o.judges(s, face, revision) {
					all = append(all, one{s, face, revision})
				}
			}
		}
	}
	var findings []*suite.Finding
	known := &history{initializes: make(map[peer.Face]bool), calls: make(map[peer.Face]bool)}
	for i, x := range all {
		r := &run{scenario: x.s, face: x.face, revision: x.revision, began: time.Now(), history: known, lost: make(map[string]bool), ended: make(chan struct{}), streams: make(map[string]*sseStream),
			patience: otherwise(o.patience, usualPatience), slow: otherwise(o.slow, usualSlow), settle: otherwise(o.settle, usualSettle)}
		if err := r.play(ctx, &o); err != nil {
			return findings, err
		}
		if ctx.Err() != nil {
			return findings, ctx.Err()
		}
		if len(r.requests("initialize")) > 0 {
			known.initializes[x.face] = true
		}
		if len(r.requests("tools/call")) > 0 {
			known.calls[x.face] = true
		}
		found := r.judge(&o)
		findings = append(findings, found...)
		if o.Progress != nil {
			o.Progress(i+1, len(all), x.s.Name, found)
		}
	}
	return findings, nil
}

// play runs the client against the scenario's server.
func (r *run) play(ctx context.Context, o *Options) error {
	ctx, cancel := context.WithTimeout(ctx, otherwise(o.Timeout, 30*time.Second))
	defer cancel()
	with := r.withHTTP
	if r.face.Stdio() {
		with = r.withProcesses
	}
	if err := with(ctx, o); err != nil {
		return fmt.Errorf("mock: %w", err)
	}
	return nil
}

// judge returns the findings of a run.
func (r *run) judge(o *Options) (out []*suite.Finding) {
	for _, c := range table() {
		if !o.judged(&c, r.scenario, r.face, r.revision) {
			continue
		}
		v := &verdict{run: r}
		switch {
		case c.ID == "client.shape" && o.Shape == nil:
			continue
		case c.ID == "client.shape":
			v.shapes(o.Shape)
		default:
			c.judge(v)
		}
		f := &suite.Finding{Check: &c.Check, Face: r.face, Revision: r.revision, Behind: r.scenario.Name, Problems: v.problems, Reason: v.skipped, TookMS: time.Since(r.began).Milliseconds()}
		switch {
		case len(v.problems) > 0:
			f.Outcome, f.Reason, f.Evidence = c.Level.Failure(), "", r.evidence()
		case v.skipped != "":
			f.Outcome = suite.Skipped
		default:
			f.Outcome = suite.Passed
		}
		out = append(out, f)
	}
	return out
}

func (v *verdict) shapes(shape func(revision string, raw []byte, answers string) []suite.ShapeProblem) {
	seen := make(map[string]bool)
	v.each("", func(h *received) {
		if h.message.Method == "server/discover" && !v.face.Modern() || h.message.Method == "initialize" && v.face.Modern() {
			return // a probe of the era
		}
		answers := ""
		if h.message.Kind() == peer.IsResponse {
			answers = v.asked(string(h.message.ID))
		}
		for _, p := range shape(v.version(), []byte(h.body), answers) {
			expected := what(h) + ", " + p.Place + ": " + p.Expected
			if !seen[expected] {
				seen[expected] = true
				v.fail(expected, "%s", p.Got)
			}
		}
	})
}

// judges reports whether a scenario has a selected check.
func (o *Options) judges(s *Scenario, face peer.Face, revision string) bool {
	return slices.ContainsFunc(table(), func(c check) bool { return o.judged(&c, s, face, revision) })
}

func (o *Options) judged(c *check, s *Scenario, face peer.Face, revision string) bool {
	return c.At(face, revision) && (len(c.scenarios) == 0 || slices.Contains(c.scenarios, s.Name)) && (o.Wanted == nil || o.Wanted(c.ID))
}
