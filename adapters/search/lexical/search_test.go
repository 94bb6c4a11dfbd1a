package lexical

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6 {
		t.Errorf("%s: %.7f, want %.7f", what, got, want)
	}
}

// only returns the one hit of a query.
func only(t *testing.T, x *Index, query string) Hit {
	t.Helper()
	hits := x.Search(query, 10, nil)
	if len(hits) != 1 {
		t.Fatalf("%q finds %d: %v", query, len(hits), hits)
	}
	return hits[0]
}

// TestScoreOfAField has the word once in a field of ordinary length: its weight w gives w/(2.5+w) of the rarity of one of two, log 2.
func TestScoreOfAField(t *testing.T) {
	tests := []struct {
		doc    Document
		weight float64
		why    string
	}{
		{Document{Name: "zebra"}, 2, "name: zebra"},
		{Document{Title: "Zebras"}, 1.5, "title: zebra"},
		{Document{Description: "a zebra"}, 1, "description: zebra"},
		{Document{Parameters: []Parameter{{Name: "zebra"}}}, 0.5, "parameter: zebra"},
		{Document{Parameters: []Parameter{{Description: "zebra"}}}, 0.3, "parameter description: zebra"},
		{Document{Parameters: []Parameter{{Values: []string{"zebra"}}}}, 0.3, "value: zebra"},
		{Document{Outputs: []string{"zebra"}}, 0.15, "output: zebra"},
	}
	for _, test := range tests {
		x := New()
		test.doc.Server = "s"
		x.Put(test.doc, Document{Server: "s", Name: "plough"})
		hit := only(t, x, "zebra")
		near(t, test.why, hit.Score, test.weight/(2.5+test.weight)*math.Log(2))
		if !slices.Equal(hit.Fields, []string{test.why}) || hit.Server != "s" || hit.Name != test.doc.Name {
			t.Errorf("%+v, want for %s", hit, test.why)
		}
	}
}

// TestScoreOfALongField has the word in a field three times as long as it counts in full: each occurrence counts 1/(0.5+0.5*3).
func TestScoreOfALongField(t *testing.T) {
	for field, test := range map[string]struct {
		ordinary int
		weight   float64
		doc      func(text string) Document
	}{
		"name":           {4, 2, func(text string) Document { return Document{Name: text} }},
		"title":          {4, 1.5, func(text string) Document { return Document{Title: text} }},
		"description":    {30, 1, func(text string) Document { return Document{Description: text} }},
		"parameter":      {30, 0.5, func(text string) Document { return Document{Parameters: []Parameter{{Name: text}}} }},
		"parameter text": {30, 0.3, func(text string) Document { return Document{Parameters: []Parameter{{Description: text}}} }},
		"value":          {30, 0.3, func(text string) Document { return Document{Parameters: []Parameter{{Values: []string{text}}}} }},
		"output":         {30, 0.15, func(text string) Document { return Document{Outputs: []string{text}} }},
	} {
		x := New()
		x.Put(test.doc("zebra zebra" + strings.Repeat(" plough", 3*test.ordinary-2)))
		weight := test.weight * 2 / 2
		near(t, field, only(t, x, "zebra").Score, weight/(2.5+weight)*math.Log(1+0.5/1.5))
	}
}

func TestScoreOfSeveralFields(t *testing.T) {
	x := New()
	x.Put(Document{Name: "zebra", Title: "zebra", Description: "zebra and zebra"}, Document{Name: "plough"})
	weight := 2 + 1.5 + 2.0
	near(t, "sum of weights", only(t, x, "zebra").Score, weight/(2.5+weight)*math.Log(2))
}

// TestScoreOfParts has 0.4 of all words and 0.6 of the part that fits best.
func TestScoreOfParts(t *testing.T) {
	x := New()
	x.Put(Document{Name: "zebra", Description: "plough"}, Document{Name: "k"}, Document{Name: "y"})
	zebra, plough := 2/4.5*math.Log(1+2.5/1.5), 1/3.5*math.Log(1+2.5/1.5)
	near(t, "one part", only(t, x, "zebra plough").Score, zebra+plough)
	near(t, "two parts", only(t, x, "plough. zebra").Score, 0.4*(zebra+plough)+0.6*zebra)
	near(t, "a word of both parts counts once in all", only(t, x, "zebra. plough zebra").Score, zebra+plough)
}

// TestScoreOfAlike: alpho and alpha share three of their five grams each.
func TestScoreOfAlike(t *testing.T) {
	x := New()
	x.Put(Document{Name: "alpha"}, Document{Name: "k"})
	hit := only(t, x, "alpho")
	near(t, "typo", hit.Score, 0.6*0.6*2/4.5*math.Log(2))
	if !slices.Equal(hit.Fields, []string{"name: alpha"}) {
		t.Error(hit.Fields)
	}
	x.Put(Document{Name: "alpho"}) // now each is one of three, and both are in question
	hits := x.Search("alpho", 10, nil)
	if len(hits) != 2 || hits[0].Name != "alpho" {
		t.Fatal(hits)
	}
	rarity := math.Log(1 + 2.5/1.5)
	near(t, "itself", hits[0].Score, 2/4.5*rarity)
	near(t, "beside it", hits[1].Score, 0.6*0.6*2/4.5*rarity)
	x.Put(Document{Name: "b", Description: "alpho"}) // the word of the query is now less rare than what is like it
	near(t, "no rarer than the word of the query", x.Search("alpho", 10, nil)[2].Score, 0.6*0.6*2/4.5*math.Log(2))
}

// TestOfAlikeWordsTheBestCounts: a document with several of them has no more than the best gives.
func TestOfAlikeWordsTheBestCounts(t *testing.T) {
	x := New()
	x.Put(Document{Name: "alpha", Description: "alpho"}, Document{Name: "k"})
	near(t, "the word itself in the description", only(t, x, "alpho").Score, max(1/3.5, 0.36*2/4.5)*math.Log(2))
	near(t, "the word itself in the name", only(t, x, "alpha").Score, 2/4.5*math.Log(2))
}

func TestScoreOfServers(t *testing.T) {
	x := New()
	x.Put(Document{Server: "a", Name: "k", ServerText: "zebra " + strings.Repeat("plough ", 59)}, Document{Server: "b", Name: "j"}, Document{Server: "b", Name: "zebra"})
	hits := x.Search("zebra", 10, nil)
	if len(hits) != 2 || hits[0].Name != "zebra" || hits[1].Name != "k" {
		t.Fatal(hits)
	}
	near(t, "the tool", hits[0].Score, 2/4.5*math.Log(1+2.5/1.5))
	weight := 1 / (0.5 + 0.5*2)
	near(t, "what is said of the server", hits[1].Score, 0.4*weight/(2.5+weight)*math.Log(2))
	if !slices.Equal(hits[1].Fields, []string{"server: zebra"}) {
		t.Error(hits[1].Fields)
	}
	hits = x.Search("zebro", 10, nil)
	near(t, "what is like it", hits[1].Score, 0.36*0.4*weight/(2.5+weight)*math.Log(2))
}

func TestScoreOfTwoWordsThatAreSaidOfAServer(t *testing.T) {
	x := New()
	x.Put(Document{Server: "a", Name: "k", ServerText: "zebra plough"}, Document{Server: "b", Name: "j", ServerText: "goat"})
	for _, query := range []string{"zebra plough", "plough. goats zebra"} {
		near(t, query, x.Search(query, 5, nil)[0].Score, 0.4*2*1/3.5*math.Log(2))
	}
}

func TestScoreOfAWordThatIsSaidTwiceOfAServer(t *testing.T) {
	x := New()
	x.Put(Document{Server: "a", Name: "k", ServerText: "zebras and a zebra"})
	near(t, "two occurrences", only(t, x, "zebra").Score, 0.4*2/(2.5+2)*math.Log(1+0.5/1.5))
}

func TestOfTextsOfOneLengthTheLastCounts(t *testing.T) {
	for range 30 { // of a map
		x := New()
		x.Put(Document{Name: "1", ServerText: "plough"}, Document{Name: "2", ServerText: "zebras"}, Document{Name: "3", ServerText: "aprons"})
		if len(x.Search("zebra", 5, nil)) != 3 {
			t.Fatal(x.servers[""])
		}
	}
}

func TestWhatIsSaidOfAServerIsTheLongest(t *testing.T) {
	x := New()
	x.Put(Document{Server: "a", Name: "1", ServerText: "plough"}, Document{Server: "a", Name: "2", ServerText: "zebras"}, Document{Server: "a", Name: "3", ServerText: "goat"})
	finds := func(query string, want int) {
		t.Helper()
		if got := len(x.Search(query, 10, nil)); got != want {
			t.Errorf("%q finds %d, want %d", query, got, want)
		}
	}
	finds("zebra", 3) // as long as plough, and after it
	finds("plough", 0)
	x.Delete("a", "2")
	finds("zebra", 0)
	finds("plough", 2)
	x.Put(Document{Server: "a", Name: "1"})
	finds("plough", 0)
	finds("goat", 2)
	x.Delete("a", "3")
	finds("goat", 0)
	if x.Len() != 1 || len(x.terms) != 1 {
		t.Errorf("%d documents, %v", x.Len(), x.terms)
	}
}

func TestFinds(t *testing.T) {
	x := New()
	for _, name := range []string{"airqualityforecast", "create_issue", "getUserInfo", "listRepositories", "sendEmail"} {
		x.Put(Document{Server: "s", Name: name})
	}
	x.Put(Document{Server: "s", Name: "ru", Description: "Показывает погоду в городе"}, Document{Server: "s", Name: "ja", Description: "天気予報を表示"})
	for query, want := range map[string]string{
		"air quality":         "airqualityforecast", // contained in a name in one piece, though its stem is not
		"quality":             "airqualityforecast",
		"forecasts":           "airqualityforecast",
		"creating issues":     "create_issue",
		"isue":                "create_issue", // typos
		"user information":    "getUserInfo",
		"repositry":           "listRepositories",
		"emial":               "sendEmail",
		"погода":              "ru",
		"городов":             "ru",
		"今日の天気":               "ja",
		"airqualityforecasts": "airqualityforecast",
	} {
		hits := x.Search(query, 3, nil)
		if len(hits) == 0 || hits[0].Name != want {
			t.Errorf("%q: %v, want %s", query, hits, want)
		}
	}
	for _, query := range []string{"", "?", "qqqq", "xy", "the"} {
		if hits := x.Search(query, 3, nil); len(hits) != 0 {
			t.Errorf("%q finds %v", query, hits)
		}
	}
}

func TestAlikeIsBounded(t *testing.T) {
	s := &scratch{}
	alikes := func(x *Index, word string) (all []string) {
		for _, a := range x.alike(s, queryWord{word, word, word}, -1) {
			all = append(all, fmt.Sprintf("%s %.2f", x.words[a.place].text, a.likeness))
		}
		return all
	}
	x := New()
	for _, name := range []string{"abcdz", "abcde", "abcd", "abcdefghijk", "abc", "zabcdz", "bcd", "xabcdefghijklmnopqrstuv", "abxde"} {
		x.Put(Document{Name: name})
	}
	tests := map[string][]string{
		"abcde": {"abcd 0.67", "abcdz 0.60", "abcdefghijk 0.60", "xabcdefghijklmnopqrstuv 0.60"},
		"abc":   nil,
		"abcq":  {"abc 0.75", "abcd 0.75"},
		"qbcd":  nil,
	}
	for word, want := range tests {
		got := alikes(x, word)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", word, got, want)
		}
	}
	x = New()
	for i := range 12 {
		x.Put(Document{Name: "abcdef" + string(rune('g'+i))})
	}
	if got := alikes(x, "abcdef"); len(got) != alikeMost || got[0] != "abcdefg 0.77" || got[7] != "abcdefn 0.77" {
		t.Errorf("%v", got)
	}
}

// TestAWordOfManyToolsStandsForItself: nothing else is looked for where it is known, nor is what many have looked for where it is not asked for.
func TestAWordOfManyToolsStandsForItself(t *testing.T) {
	x := New()
	for i := range alikeRare {
		x.Put(Document{Server: "s", Name: fmt.Sprint(i), Description: "alpha"})
	}
	x.Put(Document{Server: "s", Name: "typo", Description: "alpho"})
	finds := func(query string, want int) {
		t.Helper()
		if got := len(x.Search(query, 5000, nil)); got != want {
			t.Errorf("%q finds %d, want %d", query, got, want)
		}
	}
	finds("alpha", alikeRare+1)
	finds("alpho", alikeRare+1)
	x.Put(Document{Server: "s", Name: "more", Description: "alpha"})
	finds("alpha", alikeRare+1)
	finds("alpho", 1)
	finds("alphu", alikeRare+2)
}

func TestWhyIsBounded(t *testing.T) {
	x := New()
	x.Put(Document{Name: "one two three four", Description: "one two", Title: "three", ServerText: "four"})
	hit := only(t, x, "four three, one two. One")
	if want := []string{"name: four", "name: three", "name: two", "title: three", "description: two"}; !slices.Equal(hit.Fields, want) {
		t.Errorf("%q, want %q", hit.Fields, want)
	}
}
