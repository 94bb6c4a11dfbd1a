package classification

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dragoman/adapters/catalogue"
)

// AwayError means that a classifier cannot be reached, or refuses everything at present. Other errors of a Classifier are about the tools that
// it was given.
type AwayError struct {
	Err   error
	After time.Duration // it asks to be left alone for this long; 0: it does not say
}

// Error implements error.
func (a *AwayError) Error() string { return a.Err.Error() }

// Unwrap returns the cause.
func (a *AwayError) Unwrap() error { return a.Err }

// given is a copy of a tool, made when its batch begins: the definition may change meanwhile.
type given struct {
	tool
	at *tool
	by *set // the categories then
}

// batch classifies some tools, which are busy. It runs on a goroutine that run waits for.
func (e *Engine) batch(ctx context.Context, tools []*tool) {
	all := e.claim(ctx, tools)
	if len(all) > 0 {
		e.judge(ctx, all)
	}
	e.mu.Lock()
	for _, t := range tools {
		t.busy = false
		if wants, due := e.wants(t); wants && due.Before(e.next) { // it failed, another instance has it, or it has changed meanwhile
			e.next = due
		}
	}
	e.running--
	e.mu.Unlock()
	e.signal()
}

// claim returns the tools that no other instance classifies. The others are looked at again later.
func (e *Engine) claim(ctx context.Context, tools []*tool) (all []given) {
	e.mu.Lock()
	asked := make([]catalogue.Classification, len(tools))
	copies := make(map[catalogue.ToolKey]given, len(tools))
	for i, t := range tools {
		asked[i] = catalogue.Classification{ToolKey: t.key, Hash: t.want}
		copies[t.key] = given{*t, t, e.is}
	}
	e.mu.Unlock()
	got, err := e.opt.Store.ClaimTools(ctx, e.opt.Instance, lease, asked)
	e.note(ctx, "the store of categories", err)
	for _, key := range got {
		all = append(all, copies[key])
	}
	if len(got) == len(tools) {
		return all
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	for _, key := range got {
		delete(copies, key)
	}
	for _, one := range copies {
		one.at.due = now.Add(lookAgain)
	}
	if soon := now.Add(lookAgain); soon.Before(e.look) {
		e.look = soon
	}
	return all
}

// judge classifies tools and stores what comes out.
func (e *Engine) judge(ctx context.Context, all []given) {
	tools := make([]Tool, len(all))
	for i := range all {
		tools[i] = Read(all[i].server, all[i].key.Tool, all[i].raw, all[i].text)
	}
	e.mu.Lock()
	asked := time.Now()
	left := asked.Before(e.away.until)
	e.mu.Unlock()
	by := all[0].by
	o := &outcome{by: by.first.Name(), err: errAway}
	if !left {
		o.found, o.err = e.ask(ctx, by.first, tools)
		e.answered(ctx, asked, o.err)
	}
	if o.err != nil && by.fallback != nil && ctx.Err() == nil {
		if found, wrong := e.ask(ctx, by.fallback, tools); wrong == nil {
			o.found, o.by, o.standIn = found, by.fallback.Name(), true
		}
	}
	e.counts.add(o, left)
	e.keep(ctx, all, o)
}

var errAway = &AwayError{Err: errors.New("classification: the classifier is left alone for a while")}

func isAway(err error) bool {
	_, away := errors.AsType[*AwayError](err)
	return away
}

// ask asks a classifier, for a time.
func (e *Engine) ask(ctx context.Context, c Classifier, tools []Tool) ([][]Assigned, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, MostTime, &AwayError{Err: fmt.Errorf("classification: no answer within %v", MostTime)})
	defer cancel()
	found, err := c.Classify(ctx, tools)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err == nil && len(found) != len(tools):
		return nil, fmt.Errorf("classification: %d answers for %d tools", len(found), len(tools))
	}
	return found, err
}

// answered notes whether the classifier, which was asked at that time, can be reached. Batches that failed at once are one failure. The failure of a
// call that is older than the last Reclassify does not count.
func (e *Engine) answered(ctx context.Context, asked time.Time, err error) {
	if ctx.Err() != nil {
		return
	}
	e.mu.Lock()
	now := time.Now()
	a, is := errors.AsType[*AwayError](err)
	if is && asked.Before(e.again) {
		e.mu.Unlock()
		return
	}
	switch {
	case !is:
		e.away = away{}
	case !now.Before(e.away.until):
		e.next = time.Time{} // what it is to be asked about waits now
		e.away.failures++
		e.away.until = now.Add(max(min(a.After, retryMost), pause(e.away.failures)))
	}
	e.mu.Unlock()
	e.note(ctx, "the classifier", err)
}

// pause returns the time for which the Engine leaves something alone after failures in a row.
func pause(failures int) time.Duration {
	return min(retryLeast<<max(min(failures-1, 20), 0), retryMost)
}

// outcome holds the answer to a batch.
type outcome struct {
	found   [][]Assigned
	by      string
	standIn bool  // the fallback has classified it
	err     error // of the classifier
}

// keep stores what was found of tools, or that nothing was.
func (e *Engine) keep(ctx context.Context, all []given, o *outcome) {
	now := time.Now()
	out := make([]catalogue.Classification, len(all))
	e.mu.Lock()
	for i := range all {
		had := e.stored[all[i].key]
		c := catalogue.Classification{ToolKey: all[i].key, Hash: all[i].want, State: catalogue.Classified, By: o.by, At: now}
		if o.standIn {
			c.Hash = all[i].stand
		}
		if o.err != nil && !isAway(o.err) {
			c.Failures = had.Failures + 1
		}
		switch {
		case ctx.Err() != nil: // the next one that starts does it
			c.State, c.Skills = catalogue.Discovered, had.Skills
		case o.err != nil && !o.standIn:
			c.State, c.By = catalogue.Unclassified, ""
		default:
			for _, one := range Kept(o.found[i]) {
				c.Skills = append(c.Skills, catalogue.Skill{Name: one.Category, Confidence: one.Confidence})
			}
		}
		out[i] = c
	}
	e.mu.Unlock()
	again := e.store(ctx, out)
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range out {
		t, c := all[i].at, &out[i]
		if e.stored[c.ToolKey].Person {
			continue // who was faster
		}
		e.changed = e.changed || !sameSkills(e.stored[c.ToolKey].Skills, c.Skills)
		e.stored[c.ToolKey] = *c
		t.due = time.Time{}
		switch {
		case again != nil:
			t.due = now.Add(lookAgain)
		case o.err != nil && !isAway(o.err):
			t.due = now.Add(pause(c.Failures))
		}
	}
}

// store stores classifications. When the Engine ends, there is a moment left for that.
func (e *Engine) store(ctx context.Context, all []catalogue.Classification) error {
	if ctx.Err() != nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		return e.opt.Store.PutClassifications(last, all)
	}
	err := e.opt.Store.PutClassifications(ctx, all)
	e.note(ctx, "the store of categories", err)
	return err
}

// sameSkills reports whether two tools have the same categories in the same order.
func sameSkills(a, b []catalogue.Skill) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Name != b[i].Name {
			return false
		}
	}
	return true
}
