package suite

import (
	"context"
	"regexp"
	"slices"
	"sync"
	"time"

	"dragoman/conformance/peer"
)

// trialTime is the timeout of a trial.
const trialTime = time.Minute

// Shapes returns the check of the schema of every message in all trials. It has no function of its own.
func Shapes() *Check {
	return &Check{ID: "messages.shape", Title: "Every message has the shape that its revision prescribes", Level: Must,
		Faces:     []peer.Face{peer.ModernHTTP, peer.LegacyHTTP, peer.SSE, peer.ModernStdio, peer.LegacyStdio},
		Page:      "schema",
		Statement: "Requests, notifications, results and errors have the members that the revision's schema requires, of the types that it gives.",
		Why:       "Clients that validate drop the message; others find nothing where they look, or something of another type.",
		Fix:       "Each problem names the place in the message, what belongs there and what was there; the evidence is the first such message."}
}

// Options configures a run.
type Options struct {
	Checks []*Check
	Jobs   int // trials at a time; 0: 4
	// Shape returns the deviations of a server's message from its schema; answers is the method that a response answers, "" if unknown. If
	// it is nil, messages.shape is not judged.
	Shape func(revision string, raw []byte, answers string) []ShapeProblem
	// Progress is called after each trial, never concurrently. It may be nil.
	Progress func(Step)
}

// Step is the state of a run after a trial.
type Step struct {
	Done, Total int
	Ended       *Finding // of the trial
	Running     *Finding // of the trial that has been running longest; nil if there is none
}

// Run runs each check at each of its offers. The findings are in the order of the offers, then of the checks; messages.shape is the last
// of an offer.
func Run(ctx context.Context, t *peer.Target, offers []*Offer, o Options) []*Finding {
	if o.Jobs <= 0 {
		o.Jobs = 4
	}
	r := &run{target: t, options: o, shapes: make(map[*Offer]*shapes)}
	var findings []*Finding
	var trials []func()
	for _, offer := range offers {
		for _, c := range o.Checks {
			if c.Run == nil || !c.At(offer.Face, offer.Revision) {
				continue
			}
			f := &Finding{Check: c, Face: offer.Face, Revision: offer.Revision}
			findings = append(findings, f)
			trials = append(trials, func() { r.try(ctx, f, offer) })
		}
		if i := slices.IndexFunc(o.Checks, func(c *Check) bool { return c.ID == "messages.shape" }); i >= 0 && o.Shape != nil && offer.Face != peer.REST {
			s := &shapes{shape: o.Shape, seen: make(map[string]bool), finding: &Finding{Check: o.Checks[i], Face: offer.Face, Revision: offer.Revision, Outcome: Passed}}
			r.shapes[offer] = s
			findings = append(findings, s.finding)
		}
	}
	r.total = len(trials)
	next := make(chan func())
	var work sync.WaitGroup
	for range min(o.Jobs, max(1, len(trials))) {
		work.Go(func() {
			for trial := range next {
				trial()
			}
		})
	}
	for _, trial := range trials {
		next <- trial
	}
	close(next)
	work.Wait()
	return findings
}

// ShapeProblem is one deviation of a message from its schema.
type ShapeProblem struct{ Place, Expected, Got string }

type run struct {
	target  *peer.Target
	options Options
	shapes  map[*Offer]*shapes // made before the trials begin
	total   int

	mu      sync.Mutex
	done    int
	running []*Finding // in the order of their beginnings
}

// try runs a trial in its own goroutine, which Fatal and Skip end.
func (r *run) try(ctx context.Context, f *Finding, offer *Offer) {
	r.mu.Lock()
	r.running = append(r.running, f)
	r.mu.Unlock()
	defer r.ended(f)
	if why := offer.missing(f.Check.Needs); why != "" {
		f.Outcome, f.Reason = Skipped, why
		return
	}
	if ctx.Err() != nil {
		f.Outcome, f.Reason = Broken, "the run was ended"
		return
	}
	limited, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	t := &Trial{Check: f.Check, Target: r.target, Face: offer.Face, Revision: offer.Revision, Offer: offer, ctx: limited, began: time.Now()}
	if s := r.shapes[offer]; s != nil {
		t.judge = func(raw, revision, answers string) { s.judge(f.Check.ID, raw, revision, answers) }
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer t.end()
		f.Check.Run(t)
	}()
	<-ended // all waits in Run end with its context
	t.settle(f)
	if f.Outcome == Passed && ctx.Err() != nil {
		f.Outcome, f.Reason = Broken, "the run was ended"
	}
}

func (r *run) ended(f *Finding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	r.running = slices.DeleteFunc(r.running, func(one *Finding) bool { return one == f })
	if r.options.Progress == nil {
		return
	}
	s := Step{Done: r.done, Total: r.total, Ended: f}
	if len(r.running) > 0 {
		s.Running = r.running[0]
	}
	r.options.Progress(s)
}

// settle fills in the finding of the trial.
func (t *Trial) settle(f *Finding) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f.Problems, f.TookMS = t.problems, time.Since(t.began).Milliseconds()
	switch {
	case len(t.problems) > 0:
		f.Outcome = t.Check.Level.Failure()
	case t.broken != "":
		f.Outcome, f.Reason = Broken, t.broken
	case t.skipped != "":
		f.Outcome, f.Reason = Skipped, t.skipped
	default:
		f.Outcome = Passed
		return
	}
	f.Evidence = t.evidence
}

// shapes validates the messages of one offer and keeps each kind of problem once.
type shapes struct {
	shape func(revision string, raw []byte, answers string) []ShapeProblem

	mu      sync.Mutex
	seen    map[string]bool
	finding *Finding
}

var position = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`/\d+`) })

// judge validates a message from the trial of a check.
func (s *shapes) judge(check, raw, revision, answers string) {
	problems := s.shape(revision, []byte(raw), answers)
	if len(problems) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.finding
	for _, p := range problems {
		kind := answers + position().ReplaceAllString(p.Place, "/*") + p.Expected
		if s.seen[kind] || len(f.Problems) >= maxProblems {
			continue
		}
		s.seen[kind] = true
		where := p.Place
		if answers != "" {
			where = "answer to " + answers + ", " + p.Place
		}
		if len(f.Problems) == 0 {
			f.Outcome = Failed
		}
		f.Problems = append(f.Problems, Problem{Expected: where + ": " + p.Expected, Got: p.Got})
		f.Evidence = append(f.Evidence, Line{Where: "a message in " + check, Text: shorten(raw)})
	}
}
