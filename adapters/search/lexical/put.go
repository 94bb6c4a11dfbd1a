package lexical

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxWords bounds the words that are read of a document, and of what is said of a server.
const maxWords = 4000

// fieldWord is how often a stem is in a field of a document.
type fieldWord struct {
	word  string
	field uint8
	n     int
}

// readDocument counts the stems of a document, by stem and field.
func readDocument(d *Document) []fieldWord {
	var all []fieldWord
	read := func(field uint8, text string) {
		each(text, func(word string) {
			if len(all) < maxWords && (field == name || !common[word]) {
				all = append(all, fieldWord{stem(word), field, 1})
			}
		})
	}
	read(name, d.Name)
	read(title, d.Title)
	read(description, d.Description)
	for i := range d.Parameters {
		read(parameter, d.Parameters[i].Name)
	}
	for i := range d.Parameters {
		read(parameterText, d.Parameters[i].Description)
		for _, text := range d.Parameters[i].Values {
			read(value, text)
		}
	}
	for _, text := range d.Outputs {
		read(output, text)
	}
	return counted(all)
}

// counted joins the same words of the same fields, and sorts them.
func counted(all []fieldWord) []fieldWord {
	slices.SortFunc(all, func(a, b fieldWord) int {
		return cmp.Or(strings.Compare(a.word, b.word), cmp.Compare(a.field, b.field))
	})
	joined := all[:0]
	for _, w := range all {
		if n := len(joined); n > 0 && joined[n-1].word == w.word && joined[n-1].field == w.field {
			joined[n-1].n++
			continue
		}
		joined = append(joined, w)
	}
	return joined
}

// occurrences is how much a word counts that is n times in a field of length words, if from ordinary words on it counts less.
func occurrences(n int, length, ordinary float64) float64 {
	return float64(n) / (1 - lengthening + lengthening*max(length/ordinary, 1))
}

// impact returns how much a word of this weight adds to a score, before its rarity counts.
func impact(weight float64) float32 { return float32(weight / (saturation + weight)) }

// put adds one document. The caller holds mu.
func (x *Index) put(d *Document, words []fieldWord) {
	s := x.servers[d.Server]
	if s == nil {
		s = &server{name: d.Server, place: place(&x.said, &x.freeServers, nil), at: map[string]int32{}, texts: map[string]int{}}
		x.servers[d.Server] = s
	}
	s.texts[d.ServerText]++ // before the removal of what may be its last document
	if id, known := s.at[d.Name]; known {
		x.remove(s, []int32{id})
	}
	x.say(s)
	doc := &document{server: d.Server, name: d.Name, text: d.ServerText, counts: make([]count, 0, len(words)), categories: slices.Clone(d.Categories)}
	id := place(&x.docs, &x.free, doc)
	if int(id) == len(x.serverOf) {
		x.serverOf, x.categoriesOf = append(x.serverOf, 0), append(x.categoriesOf, places{})
	}
	x.serverOf[id], x.categoriesOf[id], s.at[d.Name] = s.place, x.categories.places(d.Categories), id
	var lengths [fields]float64
	for _, w := range words {
		lengths[w.field] += float64(w.n)
	}
	for i := 0; i < len(words); {
		t := x.term(words[i].word)
		weight := 0.0
		for word := words[i].word; i < len(words) && words[i].word == word; i++ {
			w := words[i]
			doc.counts = append(doc.counts, count{t, w.field})
			weight += fieldWeights[w.field] * occurrences(w.n, lengths[w.field], fieldLengths[w.field])
		}
		insert(&x.words[t].postings, posting{id, impact(weight)})
	}
}

// place puts one into a free place, or at the end, and returns where it is.
func place[T any](all *[]T, free *[]int32, one T) int32 {
	if n := len(*free); n > 0 {
		at := (*free)[n-1]
		*free = (*free)[:n-1]
		(*all)[at] = one
		return at
	}
	*all = append(*all, one)
	return int32(len(*all) - 1) //nolint:gosec // they fit into memory
}

func insert(all *[]posting, p posting) {
	at, _ := find(*all, p.at)
	*all = slices.Insert(*all, at, p)
}

func find(all []posting, at int32) (int, bool) {
	return slices.BinarySearchFunc(all, at, func(p posting, at int32) int { return cmp.Compare(p.at, at) })
}

// term returns the place of a word, which is added if it is new.
func (x *Index) term(word string) int32 {
	if t, known := x.terms[word]; known {
		return t
	}
	word = strings.Clone(word) // not the text that it is of
	t := place(&x.words, &x.freeWords, &term{text: word, letters: utf8.RuneCountInString(word)})
	x.terms[word] = t
	for _, g := range gramsOf(word) {
		x.grams[g] = append(x.grams[g], t)
	}
	return t
}

// say sees to it that what is said of a server is the longest of what its documents say.
func (x *Index) say(s *server) {
	text := ""
	for one := range s.texts {
		if len(one) > len(text) || len(one) == len(text) && one > text {
			text = one
		}
	}
	if s.text == text {
		return
	}
	s.text = text
	before := x.said[s.place]
	for _, t := range before {
		withdraw(&x.words[t].servers, s.place)
	}
	var words []fieldWord
	each(text, func(word string) {
		if len(words) < maxWords && !common[word] {
			words = append(words, fieldWord{word: stem(word), n: 1})
		}
	})
	length := float64(len(words))
	var said []int32
	for _, w := range counted(words) {
		t := x.term(w.word)
		said = append(said, t)
		insert(&x.words[t].servers, posting{s.place, impact(occurrences(w.n, length, textLength))})
	}
	slices.Sort(said)
	x.said[s.place] = said
	x.forget(before)
}

func withdraw(all *[]posting, at int32) {
	if i, has := find(*all, at); has {
		*all = slices.Delete(*all, i, i+1)
	}
}

// remove removes documents of a server, and what only they had. The caller holds mu.
func (x *Index) remove(s *server, ids []int32) {
	var touched []wordOf
	for _, id := range ids {
		d := x.docs[id]
		for i, c := range d.counts {
			if i == 0 || c.term != d.counts[i-1].term {
				touched = append(touched, wordOf{c.term, id})
			}
		}
		if s.texts[d.text]--; s.texts[d.text] == 0 {
			delete(s.texts, d.text)
		}
		x.docs[id], x.serverOf[id] = nil, -1
	}
	slices.SortFunc(touched, func(a, b wordOf) int { return cmp.Compare(a.term, b.term) })
	var terms []int32
	for i := 0; i < len(touched); {
		t, first := touched[i].term, i
		for i < len(touched) && touched[i].term == t {
			i++
		}
		terms = append(terms, t)
		x.withdrawAll(t, touched[first:i])
	}
	x.free = append(x.free, ids...)
	x.say(s)
	if len(s.texts) == 0 {
		delete(x.servers, s.name)
		x.freeServers = append(x.freeServers, s.place)
	}
	x.forget(terms)
}

// fewPostings is up to how many postings of a word are looked for one by one.
const fewPostings = 8

// withdrawAll removes the postings of documents that have a word.
func (x *Index) withdrawAll(t int32, of []wordOf) {
	w := x.words[t]
	if len(of) > fewPostings {
		w.postings = slices.DeleteFunc(w.postings, func(p posting) bool { return x.docs[p.at] == nil })
		return
	}
	for _, one := range of {
		withdraw(&w.postings, one.id)
	}
}

// wordOf is a word that a document has.
type wordOf struct{ term, id int32 }

// forget removes those words that nothing has any more.
func (x *Index) forget(terms []int32) {
	for _, t := range terms {
		w := x.words[t]
		if w == nil || len(w.postings)+len(w.servers) > 0 {
			continue
		}
		for _, g := range gramsOf(w.text) {
			at := slices.Index(x.grams[g], t)
			if x.grams[g] = slices.Delete(x.grams[g], at, at+1); len(x.grams[g]) == 0 {
				delete(x.grams, g)
			}
		}
		delete(x.terms, w.text)
		x.words[t] = nil
		x.freeWords = append(x.freeWords, t)
	}
}
