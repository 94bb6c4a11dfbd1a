package search

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"dragoman/adapters/merge/metatools"
	"dragoman/adapters/search/vectors"
)

func TestSentences(t *testing.T) {
	for query, want := range map[string][]string{
		"":                         nil,
		"mow the lawn":             nil,
		"Mow the lawn. Thanks!":    nil,
		"Mow the lawn. Sow a seed": {"Mow the lawn", "Sow a seed"},
		"Open example.com v1.2.3 now; is it big?\nAnd then close it.": {"Open example.com v1.2.3 now", "is it big", "And then close it"},
		"Hi! Mow my lawn!! Sow 3.5 seeds... Well.":                    {"Mow my lawn", "Sow 3.5 seeds"},
		"草を刈る。種を蒔くこと。":                                                {"草を刈る", "種を蒔くこと"},
		". ; ? !":                                                     nil,
		"one is this.\xff\xfe two is this. three":                     nil,
	} {
		if got := Sentences(query); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
	if got := Sentences(strings.Repeat("Mow the lawn. ", 100)); len(got) != mostSentences {
		t.Errorf("%d sentences", len(got))
	}
}

func FuzzSentences(f *testing.F) {
	f.Add("Mow the lawn. Sow a seed")
	f.Add("\xff.\n。 a b c; d e f")
	f.Fuzz(func(t *testing.T, query string) {
		all := Sentences(query)
		if len(all) == 1 || len(all) > mostSentences {
			t.Errorf("%d sentences", len(all))
		}
		for _, one := range all {
			at := strings.Index(query, one)
			if at < 0 {
				t.Fatalf("%q is not in the query, or in another order", one)
			}
			query = query[at+len(one):]
		}
	})
}

func TestJoin(t *testing.T) {
	hit := func(tool string, score float32) vectors.Hit {
		return vectors.Hit{Server: "s", Tool: tool, Score: score}
	}
	whole := []vectors.Hit{hit("a", .5), hit("b", .4)}
	if got := Join([][]vectors.Hit{whole}); !slices.Equal(got, whole) {
		t.Errorf("%v", got)
	}
	var got []string
	for _, h := range Join([][]vectors.Hit{whole, {hit("b", .8), hit("c", .5), hit("a", .5)}, {hit("d", .6), hit("c", .6), hit("e", -.5)}}) {
		got = append(got, fmt.Sprintf("%s %.2f", h.Tool, h.Score))
	}
	if want := []string{"b 0.72", "c 0.54", "d 0.54", "a 0.50", "e -0.50"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Each sentence of a query finds its tools by meaning. Their vectors are made at once, and kept.
func TestSentencesFind(t *testing.T) {
	sortedBubble(t, func(t *testing.T, x *sorted) {
		x.model.took()
		const query = "Shorten all grass. Sowing is no work. Boils a kettle of water"
		for range 2 {
			hits := x.Find(t.Context(), metatools.Query{Text: query, Limit: 3}, anything)
			if len(hits) != 3 || !slices.ContainsFunc(hits, func(h metatools.Hit) bool { return h.Name == "mow" && slices.Contains(h.Why, "meaning") }) {
				t.Errorf("%+v", hits)
			}
		}
		same(t, "embedded", x.model.took(), query, "Shorten all grass", "Sowing is no work", "Boils a kettle of water")
		x.Find(t.Context(), metatools.Query{Text: "Shorten all grass. Find me a book", Limit: 3}, anything)
		same(t, "embedded of a query with a known sentence", x.model.took(), "Shorten all grass. Find me a book", "Find me a book")
	})
}
