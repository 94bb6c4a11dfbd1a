package classification

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/goccy/go-json"
)

//go:embed testdata/labelled.jsonl
var labelled []byte

// label is a tool of a real server with the category that a person has given it.
type label struct {
	Server, Title, Set, Category, Name, Description string
	Parameters                                      []string
}

func labels(t *testing.T) (all []label) {
	t.Helper()
	lines := bufio.NewScanner(bytes.NewReader(labelled))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var one label
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

// agree returns on how many tools of a set the primary category is the label, and those on which it is not.
func agree(t *testing.T, set string, serverText bool) (agreed, of int, wrong []string) {
	t.Helper()
	l := NewLocal(Standard())
	for _, one := range labels(t) {
		if one.Set != set {
			continue
		}
		tool := Tool{Name: one.Name, Description: one.Description, Parameters: one.Parameters}
		if serverText {
			tool.Server, tool.ServerText = one.Server, one.Title
		}
		got, err := l.Classify(context.Background(), []Tool{tool})
		if err != nil {
			t.Fatal(err)
		}
		of++
		if len(got[0]) > 0 && got[0][0].Category == one.Category {
			agreed++
			continue
		}
		wrong = append(wrong, fmt.Sprintf("%s.%s: want %s, got %v", one.Server, one.Name, one.Category, got[0]))
	}
	return agreed, of, wrong
}

// The local classifier agrees with the labels of a hundred tools of real servers, which were written before it was. The rest of the tools of
// these servers have labels as well, which nothing was tuned to.
func TestLocalAgreesWithPeople(t *testing.T) {
	for _, c := range []struct {
		set        string
		serverText bool
		least, of  int
	}{{"judged", true, 70, 100}, {"judged", false, 70, 100}, {"rest", true, 36, 52}} {
		agreed, of, wrong := agree(t, c.set, c.serverText)
		t.Logf("%s, with what is said of the server: %v: %d of %d", c.set, c.serverText, agreed, of)
		for _, one := range wrong {
			t.Log("  ", one)
		}
		if agreed < c.least || of != c.of {
			t.Errorf("%d of %d agree, want %d of %d", agreed, of, c.least, c.of)
		}
	}
}

// The same tools have the same categories, in any company.
func TestLocalIsDeterministic(t *testing.T) {
	var tools []Tool
	for _, one := range labels(t) {
		tools = append(tools, Tool{Server: one.Server, Name: one.Name, Description: one.Description, Parameters: one.Parameters})
	}
	first, err := NewLocal(Standard()).Classify(t.Context(), tools)
	if err != nil {
		t.Fatal(err)
	}
	for i := range tools {
		alone, err := NewLocal(Standard()).Classify(t.Context(), tools[i:i+1])
		if err != nil || !reflect.DeepEqual(alone[0], first[i]) {
			t.Errorf("%s: %v, and %v alone, %v", tools[i].Name, first[i], alone, err)
		}
	}
}

// Categories of the user's may be of any language, and a tool of which nothing is known has none.
func TestLocalWithOtherCategories(t *testing.T) {
	l := NewLocal([]Category{{Name: "garden", Description: "Lawns and hedges", Keywords: []string{"mow", "hedge trimmer"}}, {Name: "погода", Keywords: []string{"прогноз погоды"}}, {Name: "empty"}})
	for _, c := range []struct {
		tool Tool
		want string
	}{
		{Tool{Name: "mowLawn"}, "garden"},
		{Tool{Name: "start", Description: "Starts the hedge trimmer"}, "garden"},
		{Tool{Name: "w", Title: "Прогноз погоды", Description: "Прогнозы погоды на неделю"}, "погода"},
		{Tool{Name: "trimmer"}, ""},
		{Tool{Name: "empty"}, "empty"},
		{Tool{}, ""},
		{Tool{Name: "\xff\xfe", Description: "\x00"}, ""},
	} {
		got, err := l.Classify(t.Context(), []Tool{c.tool})
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		first := ""
		if len(got[0]) > 0 {
			first = got[0][0].Category
		}
		if first != c.want {
			t.Errorf("%+v: %v, want %q", c.tool, got[0], c.want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Classify(ended, []Tool{{Name: "mow"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context: %v", err)
	}
}
