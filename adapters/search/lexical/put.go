package lexical

import (
	"math"
	"slices"
	"strings"
)

// words are the stems of a document's words, with how often each is in which field.
type wordCount struct {
	word  string
	field uint8
	n     uint8
}

// readDocument counts the words of a document.
func readDocument(d *Document) (all []wordCount) {
	type at struct {
		word  string
		field uint8
	}
	counts := map[at]int{}
	read := func(field uint8, text string) {
		each(text, func(word string) {
			if !common[word] || field == name {
				counts[at{stem(word), field}]++
			}
		})
	}
	read(name, d.Name)
	read(title, d.Title)
	read(description, d.Description)
	for i := range d.Parameters {
		p := &d.Parameters[i]
		read(parameter, p.Name)
		read(parameterText, p.Description)
		for _, text := range p.Values {
			read(value, text)
		}
	}
	for _, text := range d.Outputs {
		read(output, text)
	}
	for _, text := range d.Categories {
		read(category, text)
	}
	for a, n := range counts {
		all = append(all, wordCount{a.word, a.field, uint8(min(n, math.MaxUint8))}) //nolint:gosec // bounded
	}
	slices.SortFunc(all, func(a, b wordCount) int {
		if a.word != b.word {
			return strings.Compare(a.word, b.word)
		}
		return int(a.field) - int(b.field)
	})
	return all
}

// put adds one document. The caller holds mu.
func (x *Index) put(d *Document, read []wordCount) {
	k := key{d.Server, d.Name}
	if id, known := x.at[k]; known {
		x.remove(id)
		x.compact()
	}
	id := int32(len(x.docs)) //nolint:gosec // documents fit into memory
	doc := &document{key: k, of: x.server(d)}
	doc.of.docs++
	x.docs = append(x.docs, doc)
	x.at[k] = id
	var lengths [fields]float64
	for _, w := range read {
		lengths[w.field] += float64(w.n)
	}
	doc.counts = make([]count, 0, len(read))
	for i := 0; i < len(read); {
		t := x.term(read[i].word)
		weighted := 0.0
		for word := read[i].word; i < len(read) && read[i].word == word; i++ {
			w := read[i]
			doc.counts = append(doc.counts, count{t, w.field, w.n})
			weighted += fieldWeights[w.field] * float64(w.n) / (1 - lengthening + lengthening*max(lengths[w.field]/fieldLengths[w.field], 1))
		}
		of := x.words[t]
		of.live++
		of.postings = append(of.postings, posting{id, float32(weighted / (saturation + weighted))})
	}
}

// term returns the place of a word, which is added if it is new.
func (x *Index) term(word string) int32 {
	if t, known := x.terms[word]; known {
		return t
	}
	word = strings.Clone(word)
	t := int32(len(x.words)) //nolint:gosec // words fit into memory
	x.words = append(x.words, &term{text: word})
	x.terms[word] = t
	for _, gram := range gramsOf(word) {
		x.grams[gram] = append(x.grams[gram], t)
	}
	return t
}

// gramsOf returns the sequences of three letters of a word, with its ends marked, each once.
func gramsOf(word string) (all []string) {
	letters := []rune("^" + word + "$")
	for i := 0; i+3 <= len(letters); i++ {
		if gram := string(letters[i : i+3]); !slices.Contains(all, gram) {
			all = append(all, gram)
		}
	}
	return all
}

// server returns the server of a document, which has the text that the document says. The caller holds mu.
func (x *Index) server(d *Document) *server {
	s := x.servers[d.Server]
	if s == nil {
		s = &server{}
		x.servers[d.Server] = s
	}
	if s.words == nil || s.text != d.ServerText {
		s.text, s.words = d.ServerText, map[int32]bool{}
		each(d.ServerText, func(word string) {
			if !common[word] {
				s.words[x.term(stem(word))] = true
			}
		})
	}
	return s
}

// remove removes a document. The caller holds mu.
func (x *Index) remove(id int32) {
	d := x.docs[id]
	for i := range d.counts {
		if i == 0 || d.counts[i].term != d.counts[i-1].term {
			x.words[d.counts[i].term].live--
		}
	}
	if d.of.docs--; d.of.docs == 0 {
		delete(x.servers, d.server)
	}
	x.docs[id] = nil
	delete(x.at, d.key)
	x.dead++
}

// leastDead is the number of removed documents from which on their places are freed.
const leastDead = 64

// compact frees what removed documents take, once they are a third of all. The caller holds mu.
func (x *Index) compact() {
	if x.dead < leastDead || 3*x.dead < len(x.docs) {
		return
	}
	places := make([]int32, len(x.docs))
	live := x.docs[:0:0]
	for id, d := range x.docs {
		places[id] = -1
		if d != nil {
			places[id] = int32(len(live)) //nolint:gosec // less than before
			live = append(live, d)
		}
	}
	for _, t := range x.words {
		kept := t.postings[:0:0]
		for _, p := range t.postings {
			if places[p.doc] >= 0 {
				kept = append(kept, posting{places[p.doc], p.impact})
			}
		}
		t.postings = kept
	}
	for i, d := range live {
		x.at[d.key] = int32(i) //nolint:gosec // less than before
	}
	x.docs, x.dead = live, 0
}
