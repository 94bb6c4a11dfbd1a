package lexical

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// TestScoreOfACategory: a twentieth of the score that the best category of a tool has among the categories is added to the tool's own.
func TestScoreOfACategory(t *testing.T) {
	x := New()
	x.Put(Document{Name: "plough", Categories: []string{"farm", "zoo", "none"}}, Document{Name: "zebra", Categories: []string{"zoo"}}, Document{Name: "k", Categories: []string{"farm"}})
	if hit := only(t, x, "zebra"); hit.Name != "zebra" {
		t.Error(hit)
	}
	x.SetCategories([]Category{{"zoo", "zebra zebra"}, {"farm", "Fields"}})
	own, zoo := 2/4.5*math.Log(1+2.5/1.5), 0.05*2/4.5*math.Log(2)
	hits := x.Search("zebra", 10, nil)
	if len(hits) != 2 || hits[0].Name != "zebra" || hits[1].Name != "plough" {
		t.Fatal(hits)
	}
	near(t, "with a word of its own", hits[0].Score, own+zoo)
	near(t, "without", hits[1].Score, zoo)
	if !slices.Equal(hits[0].Fields, []string{"name: zebra", "category: zoo"}) || !slices.Equal(hits[1].Fields, []string{"category: zoo"}) {
		t.Errorf("%+v", hits)
	}
	x.SetCategories([]Category{{"farm", "Fields"}})
	near(t, "the category has gone", only(t, x, "zebra").Score, own)
	x.SetCategories(nil)
	near(t, "all have", only(t, x, "zebra").Score, own)
}

// TestCategoriesAreBounded: of a tool three categories count, and of all 255.
func TestCategoriesAreBounded(t *testing.T) {
	x := New()
	var all []Category
	for i := range 300 {
		all = append(all, Category{fmt.Sprint("c", i), "word" + strings.Repeat("x", i%7) + fmt.Sprint(i)})
	}
	x.SetCategories(all)
	x.Put(Document{Name: "a", Categories: []string{"c1", "c2", "c3", "c4"}}, Document{Name: "b", Categories: []string{"c299", "c254"}})
	for query, want := range map[string]string{"wordxxx3": "a", "wordxx2": "a", "4": "", "299": "", "254": "b"} {
		got := ""
		if hits := x.Search(query, 1, nil); len(hits) > 0 && slices.Contains(hits[0].Fields, "category: c"+strings.TrimLeft(query, "wordx")) {
			got = hits[0].Name
		}
		if got != want {
			t.Errorf("%s finds %q, want %q", query, got, want)
		}
	}
}

func TestCategoriesByWords(t *testing.T) {
	x := New()
	if got := x.Categories("zebra", 5); got != nil {
		t.Errorf("of none: %v", got)
	}
	x.SetCategories([]Category{{"farm_work", "Ploughs and fields. tractor"}, {"zoo", "Zebras. cage"}, {"circus", "A zebra that dances"}})
	for query, want := range map[string][]string{"ploughing": {"farm_work"}, "farming": {"farm_work"}, "zebras in a cage": {"zoo", "circus"}, "the": nil, "": nil, "piano": nil} {
		if got := x.Categories(query, 5); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", query, got, want)
		}
	}
	if got := x.Categories("zebra", 1); len(got) != 1 {
		t.Errorf("one is wanted: %v", got)
	}
}
