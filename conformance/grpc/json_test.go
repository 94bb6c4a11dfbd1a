package services

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// decoded returns JSON with its numbers as they are written.
func decoded(t *testing.T, text string) (value any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		t.Fatalf("%v: %.400s", err, text)
	}
	return value
}

// encoded returns a value as JSON with its members in order.
func encoded(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// differs says where got is not what two calls have both returned, "" if it is. Where these two differ from each other, anything is right.
func differs(one, other, got any, at string) string {
	switch one := one.(type) {
	case map[string]any:
		other, ok1 := other.(map[string]any)
		got, ok2 := got.(map[string]any)
		if !ok1 || !ok2 {
			break
		}
		for _, name := range names(one, other, got) {
			a, ok1 := one[name]
			b, ok2 := other[name]
			g, ok3 := got[name]
			if ok1 != ok2 {
				continue
			}
			if ok1 != ok3 {
				return at + "/" + name
			}
			if where := differs(a, b, g, at+"/"+name); where != "" {
				return where
			}
		}
		return ""
	case []any:
		other, ok1 := other.([]any)
		got, ok2 := got.([]any)
		if !ok1 || !ok2 || len(one) != len(other) {
			break
		}
		if len(got) != len(one) {
			return at
		}
		for i := range one {
			if where := differs(one[i], other[i], got[i], fmt.Sprint(at, "/", i)); where != "" {
				return where
			}
		}
		return ""
	}
	if equal(one, other) && !equal(one, got) {
		return at + "/"
	}
	return ""
}

func names(of ...map[string]any) (all []string) {
	for _, object := range of {
		for name := range object {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// equal compares JSON of any kind.
func equal(a, b any) bool {
	one, err1 := json.Marshal(a)
	other, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(one, other)
}

// lacks says where got does not have what is wanted, "" if it has: members of objects, and all items of lists.
func lacks(want, got any, at string) string {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return at
		}
		for _, name := range names(want) {
			value, ok := object[name]
			if !ok {
				return at + "/" + name
			}
			if where := lacks(want[name], value, at+"/"+name); where != "" {
				return where
			}
		}
		return ""
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return at
		}
		for i := range want {
			if where := lacks(want[i], list[i], fmt.Sprint(at, "/", i)); where != "" {
				return where
			}
		}
		return ""
	}
	if !equal(want, got) {
		return at + "/"
	}
	return ""
}

func TestDiffers(t *testing.T) {
	for _, c := range []struct{ one, other, got, want string }{
		{`{"a":1}`, `{"a":1}`, `{"a":1}`, ""},
		{`{"a":1}`, `{"a":1}`, `{"a":2}`, "/a/"},
		{`{"a":1}`, `{"a":2}`, `{"a":3}`, ""},
		{`{"a":1}`, `{"a":1}`, `{}`, "/a"},
		{`{"a":1}`, `{}`, `{}`, ""},
		{`{}`, `{}`, `{"a":1}`, "/a"},
		{`[{"a":1}]`, `[{"a":1}]`, `[{"a":2}]`, "/0/a/"},
		{`{"a":[1]}`, `{"a":[1]}`, `{"a":[1,2]}`, "/a"},
		{`[1]`, `[1,2]`, `[]`, ""},
		{`{"a":1}`, `{"a":1}`, `[]`, "/"},
	} {
		got := differs(decoded(t, c.one), decoded(t, c.other), decoded(t, c.got), "")
		if got != c.want {
			t.Errorf("%s %s %s: %q", c.one, c.other, c.got, got)
		}
	}
}

func TestLacks(t *testing.T) {
	for _, c := range []struct{ want, got, where string }{
		{`{"a":[{"b":"x"}]}`, `{"a":[{"b":"x","c":1}],"d":2}`, ""},
		{`{"a":[{"b":"x"}]}`, `{"a":[{"b":"y"}]}`, "/a/0/b/"},
		{`{"a":[]}`, `{"a":[1]}`, "/a"},
		{`{"a":1}`, `{}`, "/a"},
		{`{"a":{}}`, `{"a":1}`, "/a"},
	} {
		if got := lacks(decoded(t, c.want), decoded(t, c.got), ""); got != c.where {
			t.Errorf("%s %s: %q", c.want, c.got, got)
		}
	}
}
