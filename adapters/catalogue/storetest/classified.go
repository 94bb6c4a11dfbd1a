package storetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"dragoman/adapters/catalogue"
)

// Sorted is a store of classifications and of categories.
type Sorted interface {
	catalogue.Classifications
	catalogue.Categories
}

// ClassificationStore tests a Sorted. open returns a new one without content, and a function that opens it again, as after a restart;
// nil if it does not outlive that.
func ClassificationStore(t *testing.T, open func(t *testing.T) (c Sorted, again func() Sorted)) {
	for name, test := range map[string]func(t *testing.T, c Sorted, again func() Sorted){
		"round trip": classificationsKept, "claims": claims, "claims at once": claimsAtOnce, "a person": personWins, "ended": classificationsEnded,
		"categories": categoriesKept,
	} {
		t.Run(name, func(t *testing.T) {
			c, again := open(t)
			test(t, c, again)
		})
	}
	if c, _ := open(t); c != nil {
		if r, both := c.(catalogue.Registry); both {
			t.Run("removed with its registration", func(t *testing.T) { classificationsOfRegistration(t, c, r) })
		}
	}
}

// classification returns one with something in each field.
func classification(server, tool string, state catalogue.ClassState, skills ...string) catalogue.Classification {
	c := catalogue.Classification{ToolKey: catalogue.ToolKey{Server: server, Tool: tool}, Hash: sha256.Sum256([]byte(tool)), State: state, By: "é", Failures: 2, At: time.UnixMilli(1_800_000_000_123)}
	for i, name := range skills {
		c.Skills = append(c.Skills, catalogue.Skill{Name: name, Confidence: 0.75 / float64(i+1)})
	}
	return c
}

func putClassifications(t *testing.T, c catalogue.Classifications, all ...catalogue.Classification) {
	t.Helper()
	if err := c.PutClassifications(t.Context(), all); err != nil {
		t.Fatal(err)
	}
}

func wantClassifications(t *testing.T, c catalogue.Classifications, want ...catalogue.Classification) {
	t.Helper()
	got, err := c.Classifications(t.Context())
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d classifications, want %d: %v\n%+v", len(got), len(want), err, got)
	}
	for i, w := range want {
		g := got[i]
		if !g.At.Equal(w.At) || len(g.Skills) != len(w.Skills) {
			t.Errorf("stored %+v\nwant %+v", g, w)
		}
		if len(w.Skills) == 0 {
			g.Skills, w.Skills = nil, nil
		}
		g.At, w.At = time.Time{}, time.Time{}
		if !reflect.DeepEqual(g, w) {
			t.Errorf("stored %+v\nwant %+v", g, w)
		}
	}
}

// claim returns the names of the tools that an instance gets.
func claim(t *testing.T, c catalogue.Classifications, instance string, lease time.Duration, all ...catalogue.Classification) (got []string) {
	t.Helper()
	keys, err := c.ClaimTools(t.Context(), instance, lease, all)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		got = append(got, key.Tool)
	}
	return got
}

func classificationsKept(t *testing.T, c Sorted, again func() Sorted) {
	wantClassifications(t, c)
	a, b, other := classification("1", "a", catalogue.Classified, "x", "y"), classification("1", "é\"\n", catalogue.Unclassified), classification("2", "a", catalogue.Classified, "x")
	putClassifications(t, c, other, b, a)
	wantClassifications(t, c, a, b, other)
	a.Skills, a.Hash, a.Failures, a.By, a.At = a.Skills[:1], sha256.Sum256(nil), 0, "another", a.At.Add(time.Hour)
	b.State = ""
	putClassifications(t, c, a, b)
	putClassifications(t, c)
	if again != nil {
		c = again()
	}
	wantClassifications(t, c, a, other)
}

func claims(t *testing.T, c Sorted, _ func() Sorted) {
	a, b := classification("1", "a", ""), classification("1", "b", "")
	expect := func(got []string, want ...string) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	expect(claim(t, c, "one", time.Hour, a), "a")
	expect(claim(t, c, "two", time.Hour, a, b), "b")
	expect(claim(t, c, "one", 0, a), "a")         // again, until now
	expect(claim(t, c, "two", time.Hour, a), "a") // one has left it
	expect(claim(t, c, "one", time.Hour, a, b))   // two has both
	done := classification("1", "a", catalogue.Classified, "x")
	putClassifications(t, c, done)
	expect(claim(t, c, "one", time.Hour, a))
	changed := a
	changed.Hash = sha256.Sum256([]byte("changed"))
	expect(claim(t, c, "one", time.Hour, changed), "a")
	all, err := c.Classifications(t.Context())
	if err != nil || len(all) != 2 || all[0].State != catalogue.Classifying || all[0].Hash != changed.Hash || len(all[0].Skills) != 1 {
		t.Errorf("while it is classified again a tool keeps what it has: %+v, %v", all, err)
	}
	failed := classification("1", "a", catalogue.Unclassified)
	putClassifications(t, c, failed)
	expect(claim(t, c, "two", time.Hour, a), "a")
}

// claimsAtOnce has many instances claim the same tools: each goes to one.
func claimsAtOnce(t *testing.T, c Sorted, _ func() Sorted) {
	const tools, instances = 20, 8
	var all []catalogue.Classification
	for i := range tools {
		all = append(all, classification("1", fmt.Sprint(i), ""))
	}
	var mu sync.Mutex
	got := map[catalogue.ToolKey]int{}
	var at sync.WaitGroup
	for i := range instances {
		at.Go(func() {
			keys, err := c.ClaimTools(t.Context(), fmt.Sprint(i), time.Hour, all)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, key := range keys {
				got[key]++
			}
		})
	}
	at.Wait()
	for _, one := range all {
		if got[one.ToolKey] != 1 {
			t.Errorf("%s went to %d instances", one.Tool, got[one.ToolKey])
		}
	}
}

// personWins has a person classify a tool: no classifier changes that, whatever becomes of the definition.
func personWins(t *testing.T, c Sorted, again func() Sorted) {
	said := classification("1", "a", catalogue.Classified, "x")
	said.Person = true
	putClassifications(t, c, said)
	later, gone := classification("1", "a", catalogue.Classified, "y"), classification("1", "a", "")
	later.Hash = sha256.Sum256([]byte("later"))
	putClassifications(t, c, later, gone)
	if got := claim(t, c, "one", time.Hour, later); got != nil {
		t.Errorf("%q is claimed", got)
	}
	if again != nil {
		c = again()
	}
	wantClassifications(t, c, said)
	back := classification("1", "a", catalogue.Discovered)
	back.Person = true
	putClassifications(t, c, back)
	back.Person = false
	wantClassifications(t, c, back)
	if got := claim(t, c, "one", time.Hour, later); len(got) != 1 {
		t.Error("a tool cannot be classified after a person has taken back what it is")
	}
}

// classificationsEnded has calls whose context has ended change nothing, unless there is only memory, which needs no time.
func classificationsEnded(t *testing.T, c Sorted, again func() Sorted) {
	if again == nil {
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := classification("1", "a", catalogue.Classified)
	if err := c.PutClassifications(ctx, []catalogue.Classification{a}); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v", err)
	}
	if got, err := c.ClaimTools(ctx, "one", time.Hour, []catalogue.Classification{a}); !errors.Is(err, context.Canceled) || got != nil {
		t.Errorf("claimed: %v %v", got, err)
	}
	wantClassifications(t, c)
}

func classificationsOfRegistration(t *testing.T, c catalogue.Classifications, r catalogue.Registry) {
	a, b := put(t, r, registration("a")), put(t, r, registration("b"))
	said := classification(a.ID, "x", catalogue.Classified)
	said.Person = true
	stays := classification(b.ID, "x", catalogue.Classified)
	putClassifications(t, c, said, stays)
	if err := r.Remove(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	wantClassifications(t, c, stays)
}

// categoriesKept changes categories and reads them again.
func categoriesKept(t *testing.T, c Sorted, again func() Sorted) {
	at := time.UnixMilli(1_800_000_000_123)
	put := func(one catalogue.Category) {
		t.Helper()
		one.At = at
		if err := c.PutCategory(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when string, want ...catalogue.Category) {
		t.Helper()
		got, err := c.Categories(t.Context())
		if err != nil || len(got) != len(want) {
			t.Fatalf("%s: %+v, %v; want %+v", when, got, err, want)
		}
		for i, w := range want {
			g := got[i]
			if g.Name != w.Name || g.Description != w.Description || !slices.Equal(g.Keywords, w.Keywords) || g.Removed != w.Removed || !g.At.Equal(at) {
				t.Errorf("%s: %+v, want %+v", when, g, w)
			}
		}
	}
	want("at first")
	web, mail := catalogue.Category{Name: "web", Description: "Pages é", Keywords: []string{"page", "site map"}}, catalogue.Category{Name: "mail", Removed: true}
	put(web)
	put(mail)
	want("put", mail, web)
	web.Keywords, mail = []string{"url"}, catalogue.Category{Name: "mail", Description: "Letters"}
	put(web)
	put(mail)
	if again != nil {
		c = again()
	}
	want("replaced", mail, web)
	for range 2 { // the second time there is nothing
		if err := c.DropCategory(t.Context(), "mail"); err != nil {
			t.Fatal(err)
		}
	}
	want("dropped", web)
}
