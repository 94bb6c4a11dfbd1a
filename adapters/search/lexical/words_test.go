package lexical

import (
	"slices"
	"strings"
	"testing"

	"github.com/kljensen/snowball/english"
)

func TestPieces(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"getUserInfo":                  "get|user|info",
		"HTTPServer":                   "http|server",
		"parseJSON":                    "parse|json",
		"JSON":                         "json",
		"aB":                           "a|b",
		"Ab":                           "ab",
		"ABc":                          "a|bc",
		"create_issue-comment":         "create|issue|comment",
		"files.read/all":               "files|read|all",
		"s3Bucket2":                    "s|3|bucket|2",
		"2024":                         "2024",
		"it's, don’t":                  "it's|don't",
		"'quoted'":                     "quoted'",
		"Привет, МИР":                  "привет|мир",
		"ПолучитьФайл":                 "получить|файл",
		"e\u0301te":                    "e\u0301te",
		"天気予報":                         "天気|気予|予報",
		"天":                            "",
		"weather天気x":                   "weather|天気|x",
		"天 気":                          "",
		"ab٣":                          "ab|٣",
		strings.Repeat("a", 50) + " b": strings.Repeat("a", 40) + "|b",
	} {
		if got := strings.Join(pieces(text), "|"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestStem(t *testing.T) {
	for word, want := range map[string]string{
		"weather": "weather", "issues": "issu", "running": "run", "is": "is", "its": "it", "cat's": "cat", "don't": "don",
		"файлы": "файл", "погоды": "погод", "天気": "天気", "123": "123", "été": "été", "ab": "ab",
	} {
		for range 2 { // the second time it is kept
			if got := stem(word); got != want {
				t.Errorf("%q: %q, want %q", word, got, want)
			}
		}
	}
}

func TestStemsOfWordsWithOnePlace(t *testing.T) {
	for range 2 {
		for i := range 3 * len(stems) {
			word := "z" + strings.Repeat("q", i%30) + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676%26)) + "ing"
			if got, want := stem(word), english.Stem(word, true); got != want {
				t.Fatalf("%q: %q, want %q", word, got, want)
			}
		}
	}
}

func TestReadQuery(t *testing.T) {
	tests := []struct {
		query, words string
		parts        [][]int
	}{
		{"", "", nil},
		{"?!.", "", nil},
		{"list the issues", "list|issu", [][]int{{0, 1}}},
		{"issue issues", "issu", [][]int{{0}}},
		{"what is it", "what|is|it", [][]int{{0, 1, 2}}},
		{"send mail. List mail, then files", "send|mail|list|file", [][]int{{0, 1}, {2, 1}, {3}}},
		{"the. Files; mail:x?y!z\na，b", "file|mail|x|y|z|b", [][]int{{0}, {1}, {2}, {3}, {4}, {5}}},
	}
	for _, test := range tests {
		q := readQuery(test.query)
		var words []string
		for _, w := range q.words {
			words = append(words, w.stem)
		}
		if got := strings.Join(words, "|"); got != test.words {
			t.Errorf("%q: %q, want %q", test.query, got, test.words)
		}
		if !slices.EqualFunc(q.parts, test.parts, slices.Equal) {
			t.Errorf("%q: parts %v, want %v", test.query, q.parts, test.parts)
		}
	}
}

// numbered returns n different words that do not look like each other's stems.
func numbered(n int) (all []string) {
	for i := range n {
		all = append(all, "w"+string(rune('b'+i%20))+string(rune('b'+i/20%20))+string(rune('b'+i/400%20)))
	}
	return all
}

func TestQueriesAreBounded(t *testing.T) {
	if q := readQuery(strings.Join(numbered(100), " ")); len(q.words) != maxQueryWords || len(q.parts) != 1 || len(q.parts[0]) != maxQueryWords {
		t.Errorf("%d words in %d parts", len(q.words), len(q.parts))
	}
	q := readQuery(strings.Join(numbered(40), ". ") + ". wbbb. wdcb wqcb")
	if len(q.words) != 40 || len(q.parts) != maxParts {
		t.Fatalf("%d words in %d parts", len(q.words), len(q.parts))
	}
	if want := []int{0, 22, 31, 32, 33, 34, 35, 36, 37, 38, 39}; !slices.Equal(q.parts[maxParts-1], want) {
		t.Errorf("the rest is %v, want %v", q.parts[maxParts-1], want)
	}
	if q := readQuery(strings.Repeat(" ", maxQuery) + "issue"); len(q.words) != 0 {
		t.Errorf("a word after the bound is read: %v", q.words)
	}
	if q := readQuery(strings.Repeat(" ", maxQuery-5) + "issue"); len(q.words) != 1 {
		t.Errorf("a word before the bound is not read: %v", q.words)
	}
}

func TestRoot(t *testing.T) {
	for _, test := range [][3]string{
		{"quality", "qualiti", "qualit"}, {"issue", "issu", "issu"}, {"air", "air", "air"}, {"файлы", "файл", "файл"}, {"a", "b", ""}, {"ё", "е", ""}, {"", "a", ""},
	} {
		if got := root(test[0], test[1]); got != test[2] {
			t.Errorf("%q and %q: %q, want %q", test[0], test[1], got, test[2])
		}
	}
}

func TestGrams(t *testing.T) {
	for word, want := range map[string]int{"": 0, "a": 1, "ab": 2, "issue": 5, "aaaaaa": 3, "天気": 2} {
		if got := gramsOf(word); len(got) != want {
			t.Errorf("%q: %d grams, want %d", word, len(got), want)
		}
	}
	if a, b := gramsOf("abc"), gramsOf("xbc"); a[2] != b[2] || a[0] == b[0] || a[1] == b[1] {
		t.Errorf("%v and %v share other than their ends", a, b)
	}
}

func TestOneSlip(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"issue", "isue"}: true, {"isue", "issue"}: true, {"email", "emial"}: true, {"list", "lost"}: true, {"list", "lists"}: true, {"a", "a"}: true,
		{"list", "last"}: true, {"list", "loss"}: false, {"list", "lits"}: true, {"list", "lias"}: false, {"list", "mist"}: false, {"list", "listen"}: false, {"list", "li"}: false,
		{"abcd", "acdb"}: false,
	} {
		if got := oneSlip(pair[0], pair[1]); got != want {
			t.Errorf("%v: %v", pair, got)
		}
	}
}

func TestCommonWordsCountInNamesOnly(t *testing.T) {
	x := New()
	x.Put(Document{Name: "get_all"}, Document{Name: "k", Description: "get all", Title: "get all"})
	if hit := only(t, x, "get all"); hit.Name != "get_all" {
		t.Error(hit)
	}
}
