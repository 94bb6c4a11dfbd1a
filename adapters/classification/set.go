package classification

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"dragoman/adapters/catalogue"
)

// Bounds of categories.
const (
	MaxCategories  = 100
	MaxDescription = 1000 // of one category, in bytes
	MaxKeywords    = 200  // of one category
	maxName        = 64   // bytes
	maxKeyword     = 100  // characters
)

// Named matches names of categories.
var Named = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// NameOK reports whether a category may have a name: lower-case letters, digits and single underscores, a letter first, at most 64 bytes.
func NameOK(name string) bool { return len(name) <= maxName && Named.MatchString(name) }

// KeywordOK reports whether a category may have a keyword: a word or a few without control characters, at most 100 characters.
func KeywordOK(keyword string) bool {
	return strings.TrimSpace(keyword) != "" && utf8.RuneCountInString(keyword) <= maxKeyword && utf8.ValidString(keyword) && !strings.ContainsFunc(keyword, unicode.IsControl)
}

// Errors of changes of categories.
var (
	ErrTooMany = errors.New("classification: there are as many categories as there may be")
	ErrLast    = errors.New("classification: it is the last category")
	ErrNotRead = errors.New("classification: the store of categories was not read yet")
)

// set is the categories of a time with what sorts tools into them. It does not change.
type set struct {
	categories   []Category
	at           map[string]int // in categories, by name
	first        Classifier
	fallback     Classifier
	sum, standIn [sha256.Size]byte // of the categories with the first classifier, and with the fallback
}

// newSet returns the categories of the configuration as persons have changed them: in their order, and by name what was added.
func newSet(opt *Options, edited map[string]catalogue.Category) *set {
	s := &set{at: map[string]int{}}
	put := func(c Category) {
		s.at[c.Name] = len(s.categories)
		s.categories = append(s.categories, c)
	}
	given := map[string]bool{}
	for _, c := range opt.Categories {
		given[c.Name] = true
		if e, changed := edited[c.Name]; !changed {
			put(c)
		} else if !e.Removed {
			put(Category{e.Name, e.Description, e.Keywords})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(edited)) {
		if e := edited[name]; !given[name] && !e.Removed {
			put(Category{e.Name, e.Description, e.Keywords})
		}
	}
	s.first, s.fallback = opt.Classifiers(s.categories)
	s.sum = Sum(s.categories, s.first.Name())
	if s.fallback != nil {
		s.standIn = Sum(s.categories, s.fallback.Name())
	}
	return s
}

// has reports whether there is a category.
func (s *set) has(name string) bool {
	_, has := s.at[name]
	return has
}

// judge has a tool be classified if it was not by these categories.
func (s *set) judge(t *tool) {
	t.due = time.Time{}
	t.want, t.stand = sha256.Sum256(slices.Concat(s.sum[:], t.sum[:])), sha256.Sum256(slices.Concat(s.standIn[:], t.sum[:]))
}

// edit makes the categories those of the configuration with the given changes. The caller holds mu.
func (e *Engine) edit(all []catalogue.Category) {
	edited := make(map[string]catalogue.Category, len(all))
	for _, c := range all {
		edited[c.Name] = c
	}
	if maps.EqualFunc(edited, e.edited, func(a, b catalogue.Category) bool {
		return a.Description == b.Description && a.Removed == b.Removed && slices.Equal(a.Keywords, b.Keywords)
	}) {
		return
	}
	e.edited, e.changed, e.next = edited, true, time.Time{}
	e.is = newSet(&e.opt, edited)
	for _, t := range e.tools {
		e.is.judge(t)
	}
}

// PutCategory adds a category, or replaces that of the same name, until a person changes it again. All tools are classified anew, but for those
// that a person has classified. It fails with ErrTooMany, ErrNotRead, or because of the store.
func (e *Engine) PutCategory(ctx context.Context, c Category) error {
	return e.change(ctx, func(is *set) error {
		if !is.has(c.Name) && len(is.categories) >= MaxCategories {
			return ErrTooMany
		}
		return nil
	}, func() error {
		return e.opt.Store.PutCategory(ctx, catalogue.Category{Name: c.Name, Description: c.Description, Keywords: c.Keywords, At: time.Now()})
	})
}

// RemoveCategory removes a category: no tool has it any more. It fails with ErrNoCategory, with ErrLast, or as PutCategory does.
func (e *Engine) RemoveCategory(ctx context.Context, name string) error {
	return e.change(ctx, func(is *set) error {
		switch {
		case !is.has(name):
			return ErrNoCategory
		case len(is.categories) == 1:
			return ErrLast
		}
		return nil
	}, func() error {
		return e.opt.Store.PutCategory(ctx, catalogue.Category{Name: name, Removed: true, At: time.Now()})
	})
}

// ResetCategory takes back what persons have changed of a category: it is that of the configuration again, or none. It fails with ErrNoCategory
// if nothing was changed, and as RemoveCategory does.
func (e *Engine) ResetCategory(ctx context.Context, name string) error {
	return e.change(ctx, func(is *set) error {
		_, changed := e.edited[name]
		given := slices.ContainsFunc(e.opt.Categories, func(c Category) bool { return c.Name == name })
		switch {
		case !changed:
			return ErrNoCategory
		case !given && is.has(name) && len(is.categories) == 1:
			return ErrLast
		case given && !is.has(name) && len(is.categories) >= MaxCategories:
			return ErrTooMany
		}
		return nil
	}, func() error { return e.opt.Store.DropCategory(ctx, name) })
}

// change changes a category in the store, if it may be, and then here.
func (e *Engine) change(ctx context.Context, may func(*set) error, store func() error) error {
	if e == nil {
		return ErrOff
	}
	e.changing.Lock()
	defer e.changing.Unlock()
	e.mu.Lock()
	err := ErrNotRead
	if e.loaded {
		err = may(e.is)
	}
	e.mu.Unlock()
	if err != nil {
		return err
	}
	if err := store(); err != nil {
		return err
	}
	all, err := e.opt.Store.Categories(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.said++
	e.edit(all)
	e.mu.Unlock()
	e.signal()
	return nil
}
