package names

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

var (
	servers = []string{"github", "git", "a-server"}
	own     = []string{"find_tool"}
)

// publics returns the public names of entries by server and original name, "server tool".
func publics(t *Table, entries []Name) map[string]string {
	all := map[string]string{}
	for i, e := range entries {
		all[e.Server+" "+e.Original] = t.Public(i)
	}
	return all
}

func TestPublicNames(t *testing.T) {
	long := strings.Repeat("x", 70)
	every := "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
	for name, test := range map[string]struct {
		style   Style
		entries []Name
		want    []string
	}{
		"always":                {Style{}, []Name{{"github", "create"}, {"git", "log"}}, []string{"github.create", "git.log"}},
		"dots of the tool stay": {Style{}, []Name{{"a-server", "api.v2.create"}}, []string{"a-server.api.v2.create"}},
		"another separator":     {Style{Separator: "__"}, []Name{{"github", "create"}}, []string{"github__create"}},
		"same name":             {Style{}, []Name{{"github", "search"}, {"git", "search"}}, []string{"github.search", "git.search"}},
		"no conflict":           {Style{When: OnConflict}, []Name{{"github", "create"}, {"git", "log"}}, []string{"create", "log"}},
		"conflict: both":        {Style{When: OnConflict}, []Name{{"github", "search"}, {"git", "search"}, {"git", "log"}}, []string{"github.search", "git.search", "log"}},
		"conflict with ours":    {Style{When: OnConflict}, []Name{{"github", "find_tool"}}, []string{"github.find_tool"}},
		"never: first":          {Style{When: Never}, []Name{{"github", "search"}, {"git", "search"}}, []string{"search", ""}},
		"never: ours":           {Style{When: Never}, []Name{{"github", "find_tool"}, {"git", "log"}}, []string{"", "log"}},
		"at the budget":         {Style{Budget: 30}, []Name{{"github", strings.Repeat("x", 23)}}, []string{"github." + strings.Repeat("x", 23)}},
		// By sha256sum: the name must not change with a release.
		"over the budget":              {Style{Budget: 30}, []Name{{"github", strings.Repeat("x", 24)}}, []string{"github.xxxxxxxxxxxx_fcdb54e8ff"}},
		"long server":                  {Style{Budget: 41}, []Name{{strings.Repeat("s", 40), "create_issue_in_repository"}}, []string{"sssssssssssssss" + "create_issue_in_" + "HASH"}},
		"half a budget":                {Style{Budget: 41}, []Name{{strings.Repeat("s", 14), long}}, []string{strings.Repeat("s", 14) + "." + strings.Repeat("x", 15) + "_" + "HASH"}},
		"illegal characters":           {Style{}, []Name{{"github", "créer une issue"}}, []string{"github.cr_er_une_issue_HASH"}},
		"legal characters":             {Style{Budget: MaxBudget}, []Name{{"github", every}}, []string{"github." + every}},
		"illegal at the start":         {Style{When: Never}, []Name{{"github", " x"}}, []string{"_x_HASH"}},
		"illegal, but short enough":    {Style{Budget: 41}, []Name{{strings.Repeat("s", 20), "a tool no"}}, []string{strings.Repeat("s", 20) + ".a_tool_no_HASH"}},
		"empty":                        {Style{When: Never}, []Name{{"github", ""}}, []string{"_HASH"}},
		"one server twice in a prefix": {Style{Separator: "_"}, []Name{{"a", "b_c"}, {"a_b", "c"}}, []string{"a_b_c_HASH", "a_b_c_HASH"}},
	} {
		t.Run(name, func(t *testing.T) {
			table := New(test.style, servers, own, test.entries)
			for i, want := range test.want {
				got := table.Public(i)
				if head, ok := strings.CutSuffix(want, "HASH"); ok {
					if len(got) != len(head)+sumLength || !strings.HasPrefix(got, head) {
						t.Errorf("%v is %q, want %q and a hash", test.entries[i], got, head)
					}
					continue
				}
				if got != want {
					t.Errorf("%v is %q, want %q", test.entries[i], got, want)
				}
			}
		})
	}
}

func TestFind(t *testing.T) {
	entries := []Name{{"github", "search"}, {"git", "search"}, {"git", "log"}, {"a-server", "api.v2.create"}, {"git", "github.create"}, {"git", "a b"}}
	table := New(Style{}, servers, own, entries)
	for name, want := range map[string]Name{
		"github.search":          {"github", "search"},
		"git.log":                {"git", "log"},
		"a-server.api.v2.create": {"a-server", "api.v2.create"},
		"log":                    {"git", "log"}, // of one server only
		"api.v2.create":          {"a-server", "api.v2.create"},
		"github.create":          {"github", "create"},   // the prefix counts before the name that git has
		"github.unlisted":        {"github", "unlisted"}, // the server decides
		"a b":                    {"git", "a b"},
		table.Public(5):          {"git", "a b"},
	} {
		if got, err := table.Find([]byte(name)); err != nil || got != want {
			t.Errorf("%s is %v, %v; want %v", name, got, err, want)
		}
	}
	for _, name := range []string{"", "unknown", "github.", "other.search", ".search"} {
		if got, err := table.Find([]byte(name)); !errors.Is(err, ErrUnknown) {
			t.Errorf("%q is %v, %v; want ErrUnknown", name, got, err)
		}
	}
	var ambiguous *AmbiguousError
	if got, err := table.Find([]byte("search")); !errors.As(err, &ambiguous) {
		t.Fatalf("search is %v, %v; want an *AmbiguousError", got, err)
	}
	if want := []string{"github.search", "git.search"}; ambiguous.Name != "search" || !slices.Equal(ambiguous.Candidates, want) {
		t.Errorf("candidates of %s: %v, want %v", ambiguous.Name, ambiguous.Candidates, want)
	}
	if want := "several servers have search: github.search, git.search"; ambiguous.Error() != want {
		t.Errorf("error %q, want %q", ambiguous, want)
	}
}

// A server that calls its tool as another server's public name takes nothing from it.
func TestNamesOfOthers(t *testing.T) {
	long := Name{"git", strings.Repeat("x", 70)}
	mended := New(Style{When: Never}, servers, nil, []Name{long}).Public(0)
	copied := Name{"github", mended}
	for _, entries := range [][]Name{{long, copied}, {copied, long}} {
		table := New(Style{When: Never}, servers, nil, entries)
		for i, e := range entries {
			if got, err := table.Find([]byte(table.Public(i))); err != nil || got != e {
				t.Errorf("%v is %q, which is %v, %v", e, table.Public(i), got, err)
			}
		}
	}
	entries := []Name{{"git", "github.create"}, {"github", "create"}}
	table := New(Style{When: OnConflict}, servers, nil, append(entries, Name{"git", "create"}))
	for i, e := range entries {
		if got, err := table.Find([]byte(table.Public(i))); err != nil || got != e {
			t.Errorf("%v is %q, which is %v, %v", e, table.Public(i), got, err)
		}
	}
}

func TestNeverHidesNothingFromPrefixes(t *testing.T) {
	table := New(Style{When: Never}, servers, own, []Name{{"github", "search"}, {"git", "search"}})
	if got, err := table.Find([]byte("git.search")); err != nil || got != (Name{"git", "search"}) {
		t.Errorf("git.search is %v, %v", got, err)
	}
	if got, err := table.Find([]byte("search")); err != nil || got != (Name{"github", "search"}) {
		t.Errorf("search is %v, %v; want that of the first server", got, err)
	}
}

func TestCertain(t *testing.T) {
	table := New(Style{}, servers, own, []Name{{"git", "log"}})
	for name, want := range map[string]bool{"git.log": true, "git.none": true, "log": false, "git.": false, "other.log": false, "": false} {
		if got := table.Certain(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

func TestAt(t *testing.T) {
	entries := []Name{{"github", "search"}, {"git", "search"}, {"git", "git.log"}, {"git", "a b"}, {"github", "git.search"}}
	table := New(Style{}, servers, own, entries)
	for _, test := range []struct{ server, name, want string }{
		{"git", "search", "search"},
		{"github", "search", "search"},
		{"git", "git.search", "search"}, // a public name
		{"git", "git.log", "git.log"},   // its own name
		{"git", table.Public(3), "a b"},
		{"github", "git.search", "git.search"},   // its own, and another server's public name
		{"a-server", "git.search", "git.search"}, // another server's
		{"git", "unlisted", "unlisted"},
	} {
		if got := table.At(test.server, test.name); got != (Name{test.server, test.want}) {
			t.Errorf("%s at %s is %v, want %s", test.name, test.server, got, test.want)
		}
	}
}

// Names are unique, legal and short enough, and lead back; whatever the order and whatever others there are.
func TestNamesProperties(t *testing.T) {
	parts := []string{"a", "b", "a_b", "é", "find_tool", "x.y", strings.Repeat("long", 12), strings.Repeat("long", 12) + "2", ".", ""}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		style := Style{When: When(r.IntN(3)), Separator: []string{".", "_", "__", "-"}[r.IntN(4)], Budget: MinBudget + r.IntN(60)}
		entries := randomEntries(r, parts)
		table := New(style, servers, own, entries)
		checkNames(t, fmt.Sprint(seed, style), table, style, entries)
		if style.When == Never {
			continue
		}
		shuffled := slices.Clone(entries)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		again := publics(New(style, servers, own, shuffled), shuffled)
		for key, name := range publics(table, entries) {
			if again[key] != name {
				t.Errorf("%d %v: %s is %q, and %q in another order", seed, style, key, name, again[key])
			}
		}
	}
}

// randomEntries returns some entries of which no two are equal.
func randomEntries(r *rand.Rand, parts []string) (entries []Name) {
	seen := map[Name]bool{}
	for range r.IntN(40) {
		e := Name{[]string{"a", "a_b", "b", strings.Repeat("server", 8)}[r.IntN(4)], parts[r.IntN(len(parts))] + parts[r.IntN(len(parts))]}
		if !seen[e] {
			seen[e] = true
			entries = append(entries, e)
		}
	}
	return entries
}

func checkNames(t *testing.T, at string, table *Table, style Style, entries []Name) {
	t.Helper()
	seen := map[string]bool{}
	for i, e := range entries {
		name := table.Public(i)
		if name == "" && style.When == Never {
			continue
		}
		if !legal(name) || len(name) > style.Budget || seen[name] || slices.Contains(own, name) {
			t.Errorf("%s: %v is called %q", at, e, name)
		}
		seen[name] = true
		if got, err := table.Find([]byte(name)); err != nil || got != e {
			t.Errorf("%s: %q is %v, %v; want %v", at, name, got, err, e)
		}
	}
}
