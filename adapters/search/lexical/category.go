package lexical

import (
	"cmp"
	"slices"
)

// Category is a kind of tools, and what is said of it.
type Category struct {
	Name string // as documents have it
	Text string // its name, its description and its keywords
}

// Bounds of categories. What is more does not count.
const (
	maxCategories  = 255
	mostCategories = 3 // of a document
)

// categories are those that there are. What they say of a query is added to the scores of their documents.
type categories struct {
	names []string         // in the order of places, from 1 on
	at    map[string]uint8 // places
	index *Index           // a document for each, whose name is that of the category
}

// places are those of a document's categories; 0: none.
type places [mostCategories]uint8

// SetCategories replaces the categories that there are. Documents have them by name: a category that is not there says nothing.
func (x *Index) SetCategories(all []Category) {
	k := &categories{at: map[string]uint8{}, index: New()}
	for _, one := range all[:min(len(all), maxCategories)] {
		k.names = append(k.names, one.Name)
		k.at[one.Name] = uint8(len(k.names)) //nolint:gosec // they are at most maxCategories
		k.index.Put(Document{Name: one.Name, Description: one.Text})
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.categories = k
	for id, d := range x.docs {
		if d != nil {
			x.categoriesOf[id] = k.places(d.categories)
		}
	}
}

// places returns the places of some categories.
func (k *categories) places(names []string) (all places) {
	n := 0
	for _, name := range names {
		if at, known := k.at[name]; known && n < len(all) {
			all[n] = at
			n++
		}
	}
	return all
}

// Categories returns the names of at most limit categories whose texts have words of a query, the best first.
func (x *Index) Categories(query string, limit int) (names []string) {
	x.mu.RLock()
	index := x.categories.index
	x.mu.RUnlock()
	if index == nil {
		return nil
	}
	for _, hit := range index.Search(query, limit, nil) {
		names = append(names, hit.Name)
	}
	return names
}

// score sets what each category adds to the scores of its documents, by place.
func (k *categories) score(s *scratch, q question) {
	s.categories, s.sorted = [maxCategories + 1]float32{}, false
	if len(k.names) == 0 {
		return
	}
	of := k.index.scratch.Get().(*scratch)
	defer k.index.scratch.Put(of)
	defer of.release()
	k.index.found(of, q)
	for id, d := range of.docs {
		if score := of.scores[id]; d != nil && score > 0 {
			s.categories[k.at[d.name]], s.sorted = float32(categoryShare)*score, true
		}
	}
}

// categoryOf returns what the category that says most adds to a document.
func (s *scratch) categoryOf(p places) float32 {
	return larger(larger(s.categories[p[0]], s.categories[p[1]]), s.categories[p[2]])
}

// best returns the place of the category that adds most to a document, and what it adds.
func (p places) best(scores *[maxCategories + 1]float32) (place uint8, score float32) {
	place = slices.MaxFunc(p[:], func(a, b uint8) int { return cmp.Compare(scores[a], scores[b]) })
	return place, scores[place]
}
