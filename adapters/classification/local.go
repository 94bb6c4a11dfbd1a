package classification

import (
	"context"
	"math"
	"strings"
)

// Local is a Classifier that compares the words of tools with those of categories. It needs no network, and always says the same. It is made
// for short definitions: what a name says counts most.
type Local struct {
	categories []Category
	terms      map[string][]termOf // by a word, or by several with blanks between them
	longest    int                 // words of a term
}

// termOf is the weight of a term for a category.
type termOf struct {
	category int
	weight   float64
}

// Weights of where a word stands: in a category, and in a tool. They hold for all categories and all tools.
const (
	ofCategoryName, ofKeyword, ofCategoryText         = 1.5, 1.0, 0.3
	ofName, ofTitle, ofDescription, ofParam, ofServer = 2.0, 1.5, 1.0, 0.4, 0.8
	// manyWords is the number of words of a text from which on each counts less.
	manyWords = 12
	// half is the score of which the confidence is 0.5.
	half = 1.6
	// near is the least part of the best score that a further category of a tool needs.
	near = 0.6
)

// NewLocal returns the Local of some categories.
func NewLocal(categories []Category) *Local {
	l := &Local{categories: categories, terms: map[string][]termOf{}, longest: 1}
	for i := range categories {
		c := &categories[i]
		all := map[string]float64{}
		add := func(words []string, weight float64) {
			if term := strings.Join(words, " "); term != "" {
				all[term] = max(all[term], weight)
				l.longest = max(l.longest, len(words))
			}
		}
		add(stems(spoken(c.Name)), ofCategoryName)
		for _, keyword := range c.Keywords {
			add(stems(keyword), ofKeyword)
		}
		for _, word := range stems(c.Description) {
			if !empty[word] {
				add([]string{word}, ofCategoryText)
			}
		}
		for term, weight := range all {
			l.terms[term] = append(l.terms[term], termOf{i, weight})
		}
	}
	for _, of := range l.terms {
		rarity := math.Log(1+float64(len(categories))/float64(len(of))) / math.Log(1+float64(len(categories)))
		for i := range of {
			of[i].weight *= rarity
		}
	}
	return l
}

// Name implements Classifier.
func (l *Local) Name() string { return "local 1" } // the number rises when it would judge differently

// Classify implements Classifier. It never fails.
func (l *Local) Classify(ctx context.Context, tools []Tool) ([][]Assigned, error) {
	all := make([][]Assigned, len(tools))
	for i := range tools {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		all[i] = l.classify(&tools[i])
	}
	return all, nil
}

func (l *Local) classify(t *Tool) (all []Assigned) {
	scores := make([]float64, len(l.categories))
	l.add(scores, t.Name, ofName)
	l.add(scores, t.Title, ofTitle)
	l.add(scores, t.Description, ofDescription)
	l.add(scores, strings.Join(t.Parameters, ". "), ofParam)
	l.add(scores, spoken(t.Server)+". "+t.ServerText, ofServer)
	best := 0.0
	for _, score := range scores {
		best = max(best, score)
	}
	for i, score := range scores {
		if score > 0 && score >= near*best {
			all = append(all, Assigned{l.categories[i].Name, score / (score + half)})
		}
	}
	return Kept(all)
}

// add adds what a text says for each category. A term counts once, and less in a long text.
func (l *Local) add(scores []float64, text string, weight float64) {
	words := stems(text)
	if len(words) > manyWords {
		weight *= math.Sqrt(manyWords / float64(len(words)))
	}
	seen := map[string]bool{}
	for i := range words {
		for n := 1; n <= l.longest && i+n <= len(words); n++ {
			term := strings.Join(words[i:i+n], " ")
			of := l.terms[term]
			if of == nil || seen[term] {
				continue
			}
			seen[term] = true
			for _, one := range of {
				scores[one.category] += weight * one.weight * math.Sqrt(float64(n)) // several words in their order say more than one
			}
		}
	}
}
