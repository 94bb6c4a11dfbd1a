package classification

import (
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// At most three categories of at least half confidence are kept, the best first (seed 004, BR-004).
func TestKept(t *testing.T) {
	for _, c := range []struct {
		name string
		all  []Assigned
		want []string
	}{
		{"none", nil, []string{}},
		{"too little", []Assigned{{"a", 0.49}, {"b", 0}, {"c", -1}}, []string{}},
		{"enough", []Assigned{{"a", 0.5}}, []string{"a"}},
		{"the best first", []Assigned{{"a", 0.6}, {"b", 0.9}, {"c", 0.1}}, []string{"b", "a"}},
		{"the first three", []Assigned{{"a", 0.6}, {"b", 0.9}, {"c", 0.7}, {"d", 0.8}}, []string{"b", "d", "c"}},
		{"equal ones by name", []Assigned{{"b", 0.6}, {"a", 0.6}}, []string{"a", "b"}},
		{"no number", []Assigned{{"a", math.NaN()}, {"b", 0.5}}, []string{"b"}},
	} {
		before := slices.Clone(c.all)
		got := []string{}
		for _, one := range Kept(c.all) {
			got = append(got, one.Category)
		}
		if !slices.Equal(got, c.want) || len(before) > 0 && !math.IsNaN(before[0].Confidence) && !reflect.DeepEqual(before, c.all) {
			t.Errorf("%s: kept %v, want %v", c.name, got, c.want)
		}
	}
}

// The standard categories have plain names, in order, and something to judge by.
func TestStandard(t *testing.T) {
	name := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	all := Standard()
	if len(all) < 20 || len(all) > 25 {
		t.Errorf("%d categories", len(all))
	}
	for i, c := range all {
		if !name.MatchString(c.Name) || i > 0 && all[i-1].Name >= c.Name || c.Description == "" || len(c.Keywords) < 5 {
			t.Errorf("%+v", c)
		}
		sorted := slices.Clone(c.Keywords)
		slices.Sort(sorted)
		if n := len(slices.Compact(sorted)); n != len(c.Keywords) || slices.Contains(sorted, "") {
			t.Errorf("%s has keywords twice, or an empty one", c.Name)
		}
	}
}

// Sum tells apart categories and classifiers, and does not run their texts together.
func TestSum(t *testing.T) {
	seen := map[[32]byte]bool{}
	for _, one := range []struct {
		of   string
		from []Category
	}{
		{"x", nil}, {"y", nil}, {"x", []Category{{Name: "a"}}}, {"x", []Category{{Description: "a"}}}, {"x", []Category{{Keywords: []string{"a"}}}},
		{"x", []Category{{Keywords: []string{"a", "b"}}}}, {"x", []Category{{Keywords: []string{"ab"}}}}, {"x", []Category{{Name: "a"}, {Name: "b"}}}, {"x", []Category{{Name: "b"}, {Name: "a"}}},
	} {
		sum := Sum(one.from, one.of)
		if seen[sum] || sum != Sum(one.from, one.of) {
			t.Errorf("%+v: another has this sum", one)
		}
		seen[sum] = true
	}
}

// A tool is read from its definition as far as that can be read.
func TestRead(t *testing.T) {
	got := Read("s", "n", []byte(`{"name":"n","title":"T","description":"D","inputSchema":{"properties":{"b":{},"a":{"properties":{"c":{}}}}}}`), "S")
	want := Tool{Server: "s", Name: "n", Title: "T", Description: "D", Parameters: []string{"a", "c", "b"}, ServerText: "S"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, raw := range []string{"", "null", "[]", `{"description":1,"inputSchema":[]}`, "{"} {
		if got := Read("s", "n", []byte(raw), ""); !reflect.DeepEqual(got, Tool{Server: "s", Name: "n"}) {
			t.Errorf("%q: %+v", raw, got)
		}
	}
}

// FuzzLocal has the definition of a tool be anything.
func FuzzLocal(f *testing.F) {
	f.Add("getFile", []byte(`{"description":"Reads a file","inputSchema":{"properties":{"path":{}}}}`))
	f.Add("\xff", []byte(`{"description":"`+strings.Repeat("a ", 5000)+`"}`))
	l := NewLocal(Standard())
	f.Fuzz(func(t *testing.T, name string, raw []byte) {
		got, err := l.Classify(t.Context(), []Tool{Read("s", name, raw, "text")})
		if err != nil || len(got) != 1 || len(got[0]) > MostCategories {
			t.Fatal(got, err)
		}
		for _, one := range got[0] {
			if !(one.Confidence >= LeastConfidence && one.Confidence <= 1) {
				t.Error(got)
			}
		}
	})
}
