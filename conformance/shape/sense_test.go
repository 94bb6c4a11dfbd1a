package shape

import (
	"math/rand/v2"
	"regexp"
	"testing"
)

// TestChangedDefinitionsAreSeen changes the definitions, one member after another and in each revision: what must be there
// need not, what has a type may be anything. The comparison with the official schemas has to see each change, or it would not
// see such a mistake either. It takes a minute, so it runs with -rounds 2 or more only.
func TestChangedDefinitionsAreSeen(t *testing.T) {
	folder := specFolder(t)
	if *rounds < 2 {
		t.Skip("long; -rounds 2 runs it")
	}
	seen := 0
	for _, revision := range Revisions() {
		o := newOfficial(t, folder, revision)
		book, err := open(revision)
		if err != nil {
			t.Fatal(err)
		}
		parts := reach(subjects(book, o))
		for f, where := range parts {
			for i, m := range f.members {
				if where == nil || m.of.kind == nothing {
					continue
				}
				for what, other := range changes(m) {
					f.members[i] = other
					if sees(t, o, where) {
						seen++
					} else if !unseen.MatchString(revision + " " + what + " " + m.name + " of " + members(f)) {
						t.Errorf("%s: nobody sees that %s is %s, of %s", revision, m.name, what, members(f))
					}
					f.members[i] = m
				}
			}
		}
	}
	t.Logf("%d changes were seen", seen)
}

// unseen are the changes that the official schemas cannot show, as we are stricter there (excuses_test.go).
var unseen = regexp.MustCompile(`related-task|(traceparent|tracestate|baggage) of|` +
	`subscriptionId|taskIds of|statusMessage|` + // what results, listen streams, the extension have
	`2025-11-25 (any|optional) _meta of (_meta|_meta elicitationId|_meta taskId) $|2025-11-25 (any|optional) taskId of taskId $|` +
	`2026-07-28 optional _meta of (_meta|_meta uri|_meta notifications) $|` +
	`(enum|enumNames|oneOf|default|minLength|maxLength|format) of type title description minLength|(const|title) of const title`)

func changes(m member) map[string]member {
	out := map[string]member{}
	if m.must {
		other := m
		other.must = false
		out["optional"] = other
	}
	if m.of.kind != anything {
		other := m
		other.of = &form{kind: anything}
		out["any"] = other
	}
	return out
}

func members(f *form) (out string) {
	for _, m := range f.members {
		out += m.name + " "
	}
	return out
}

// sees compares sound messages of some kinds until the verdicts differ.
func sees(t *testing.T, o *official, where []subject) bool {
	t.Helper()
	m := maker{rand.New(rand.NewPCG(7, 7))}
	for _, s := range where {
		sum := &tally{unexplained: map[string]string{}}
		for range 150 {
			if compare(t, o, s, s.make(m), "of changed definitions", sum, excuses()); len(sum.unexplained) > 0 {
				return true
			}
		}
	}
	return false
}

// reach lists the kinds of messages by the forms within them.
func reach(all []subject) map[*form][]subject {
	out := map[*form][]subject{}
	for _, s := range all {
		seen := map[*form]bool{}
		var visit func(f *form)
		visit = func(f *form) {
			if f == nil || seen[f] {
				return
			}
			seen[f], out[f] = true, append(out[f], s)
			for _, one := range f.of {
				visit(one)
			}
			for _, m := range f.members {
				visit(m.of)
			}
			visit(f.rest)
		}
		visit(s.form)
	}
	return out
}
