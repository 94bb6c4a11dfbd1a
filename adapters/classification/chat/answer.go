package chat

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/goccy/go-json"

	"dragoman/adapters/classification"
	"dragoman/proxy/wire"
)

// format returns the response_format: a JSON Schema by which an answer has a place for each tool, and only known categories. Bounds of numbers
// and lengths are checked here alone, since not all services take them.
func format(names []string) json.RawMessage {
	quoted, _ := json.Marshal(append([]string{}, names...)) // texts can always be written
	return json.RawMessage(`{"type":"json_schema","json_schema":{"name":"categories_of_tools","strict":true,"schema":` +
		object(`"tools":{"type":"array","items":`+object(`"number":{"type":"integer"},"categories":{"type":"array","items":`+
			object(`"name":{"type":"string","enum":`+string(quoted)+`},"confidence":{"type":"number"}`, "name", "confidence")+`}`, "number", "categories")+`}`, "tools") + `}}`)
}

// object returns the schema of an object that has these properties and no others.
func object(properties string, required ...string) string {
	return `{"type":"object","additionalProperties":false,"required":["` + strings.Join(required, `","`) + `"],"properties":{` + properties + `}}`
}

// parse returns what an answer says of n tools. One that says nothing of a tool, or anything else than the schema allows, is refused.
func (c *Classifier) parse(text string, n int) ([][]classification.Assigned, error) {
	var a answer
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return nil, fmt.Errorf("something else than the schema asks for: %s", wire.Shown(err.Error()))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	all := make([][]classification.Assigned, n)
	for i := range a.Tools {
		t := &a.Tools[i]
		switch {
		case t.Number == nil, *t.Number < 0, *t.Number >= n:
			return nil, errors.New("of a tool that it was not asked for")
		case all[*t.Number] != nil:
			return nil, errors.New("twice of one tool")
		case len(t.Categories) == 0, len(t.Categories) > classification.MostCategories:
			return nil, fmt.Errorf("%d categories of a tool, which has one to %d", len(t.Categories), classification.MostCategories)
		}
		for _, one := range t.Categories {
			switch {
			case !c.known[one.Name]:
				return nil, fmt.Errorf("a category that there is not: %s", wire.Shown(one.Name))
			case one.Confidence == nil, !(*one.Confidence >= 0 && *one.Confidence <= 1):
				return nil, errors.New("a confidence that is not from 0 to 1")
			case slices.ContainsFunc(all[*t.Number], func(x classification.Assigned) bool { return x.Category == one.Name }):
				return nil, errors.New("one category twice of a tool")
			}
			all[*t.Number] = append(all[*t.Number], classification.Assigned{Category: one.Name, Confidence: *one.Confidence})
		}
	}
	if i := slices.IndexFunc(all, func(x []classification.Assigned) bool { return x == nil }); i >= 0 {
		return nil, errors.New("nothing of a tool that it was asked for")
	}
	return all, nil
}
