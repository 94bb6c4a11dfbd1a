package classification

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dragoman/adapters/catalogue"
)

// Errors of the methods that name tools and categories.
var (
	ErrNoTool     = errors.New("classification: there is no such tool")
	ErrNoCategory = errors.New("classification: there is no such category")
	ErrOff        = errors.New("classification: nothing sorts tools into categories")
)

// ByPerson stands in Classification.By where a person has said the categories.
const ByPerson = "person"

// Of returns the names of the categories of a tool, the primary one first; nil: it has none. server is the name of the server. It may be called
// on a nil Engine, which has none.
func (e *Engine) Of(server, name string) (all []string) {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, one := range e.stored[catalogue.ToolKey{Server: e.ids[server], Tool: name}].Skills {
		if e.is.has(one.Name) {
			all = append(all, one.Name)
		}
	}
	return all
}

// Classification returns what is known of a tool. server is the name of the server. It may be called on a nil Engine.
func (e *Engine) Classification(server, name string) catalogue.Classification {
	if e == nil {
		return catalogue.Classification{State: catalogue.Discovered}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.classification(catalogue.ToolKey{Server: e.ids[server], Tool: name})
}

// classification returns what is known of a tool. The caller holds mu.
func (e *Engine) classification(key catalogue.ToolKey) catalogue.Classification {
	c, known := e.stored[key]
	c.ToolKey = key
	c.Skills = slices.DeleteFunc(slices.Clone(c.Skills), func(s catalogue.Skill) bool { return !e.is.has(s.Name) })
	t := e.tools[key]
	switch {
	case t != nil && t.busy:
		c.State = catalogue.Classifying
	case !known, t != nil && !c.Person && c.State == catalogue.Classified && c.Hash != t.want && c.Hash != t.stand: // of another definition
		c.State = catalogue.Discovered
	}
	return c
}

// Count is a category with the number of its tools.
type Count struct {
	Category
	Tools, Primary int  // that have it, and that have it first
	Changed        bool // by a person
}

// Counts returns the categories with the numbers of their tools, those of the configuration first, then by name.
func (e *Engine) Counts() []Count {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]Count, len(e.is.categories))
	for i, c := range e.is.categories {
		_, changed := e.edited[c.Name]
		all[i].Category, all[i].Changed = c, changed
	}
	for key := range e.tools {
		primary := true
		for _, one := range e.stored[key].Skills {
			i, known := e.is.at[one.Name]
			if !known {
				continue
			}
			all[i].Tools++
			if primary {
				all[i].Primary++
			}
			primary = false
		}
	}
	return all
}

// Correct says for a person which categories a tool has, the primary one first: that stays, whatever becomes of its definition. Without categories it takes
// back what a person has said, and the tool is classified anew. server is the name of the server. It fails with ErrNoTool, ErrNoCategory, or
// because of the store.
func (e *Engine) Correct(ctx context.Context, server, name string, categories []string) error {
	if e == nil {
		return ErrOff
	}
	e.mu.Lock()
	t := e.tools[catalogue.ToolKey{Server: e.ids[server], Tool: name}]
	if t == nil {
		e.mu.Unlock()
		return ErrNoTool
	}
	c := catalogue.Classification{ToolKey: t.key, Hash: t.want, State: catalogue.Classified, By: ByPerson, Person: true, At: time.Now()}
	is := e.is
	e.mu.Unlock()
	for _, one := range categories {
		if !is.has(one) {
			return fmt.Errorf("%w: %s", ErrNoCategory, one)
		}
		if !slices.ContainsFunc(c.Skills, func(s catalogue.Skill) bool { return s.Name == one }) {
			c.Skills = append(c.Skills, catalogue.Skill{Name: one, Confidence: 1})
		}
	}
	if len(c.Skills) == 0 {
		c.State, c.By = catalogue.Discovered, ""
	}
	if err := e.opt.Store.PutClassifications(ctx, []catalogue.Classification{c}); err != nil {
		return err
	}
	c.Person = c.State == catalogue.Classified
	e.mu.Lock()
	e.said++
	e.stored[c.ToolKey], e.changed, e.next = c, true, time.Time{}
	if now := e.tools[c.ToolKey]; now != nil {
		now.due = time.Time{}
	}
	e.mu.Unlock()
	e.signal()
	return nil
}

// Reclassify has tools classified anew, but for those that a person has classified (seed 004, reclassify and retry). server and name narrow
// them; empty: all. They keep their categories until then. It returns how many they are, with those that are being classified already.
func (e *Engine) Reclassify(ctx context.Context, server, name string) (n int, err error) {
	if e == nil {
		return 0, ErrOff
	}
	e.mu.Lock()
	var all []catalogue.Classification
	found := false
	for key, t := range e.tools {
		if server != "" && t.server != server || name != "" && key.Tool != name {
			continue
		}
		found = true
		c := e.stored[key]
		if c.Person {
			continue
		}
		n++
		if !t.busy {
			c.ToolKey, c.State, c.Failures, c.At = key, catalogue.Discovered, 0, time.Now()
			all = append(all, c)
		}
	}
	e.mu.Unlock()
	if !found && (server != "" || name != "") {
		return 0, ErrNoTool
	}
	slices.SortFunc(all, func(a, b catalogue.Classification) int { return a.Compare(b.ToolKey) })
	if err := e.opt.Store.PutClassifications(ctx, all); err != nil {
		return 0, err
	}
	e.mu.Lock()
	for _, c := range all {
		if t := e.tools[c.ToolKey]; t != nil && !t.busy && !e.stored[c.ToolKey].Person {
			e.stored[c.ToolKey], t.due = c, time.Time{}
		}
	}
	e.said++
	e.away.until, e.next = time.Time{}, time.Time{} // somebody thinks that it is back
	e.again = time.Now()
	e.mu.Unlock()
	e.signal()
	return n, nil
}
