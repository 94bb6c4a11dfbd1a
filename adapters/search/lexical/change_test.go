package lexical

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestAnyChangesAreAsOneMadeAnew puts and deletes at random, and compares with an index of what there should be, made in another order.
func TestAnyChangesAreAsOneMadeAnew(t *testing.T) {
	words := []string{"issue", "issues", "tissue", "repository", "repo", "list", "lists", "create", "mail", "email", "emails", "file", "profile", "погода", "天気予報"}
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		text := func(most int) string {
			var all []string
			for range r.IntN(most + 1) {
				all = append(all, words[r.IntN(len(words))])
			}
			return strings.Join(all, " ")
		}
		x, want := New(), map[[2]string]Document{}
		var kinds []Category
		for range 300 {
			server, name := fmt.Sprint("s", r.IntN(3)), fmt.Sprint("n", r.IntN(30))
			switch r.IntN(13) {
			case 12:
				kinds = kinds[:0]
				for _, name := range []string{"c0", "c1", "c2"}[:r.IntN(4)] {
					kinds = append(kinds, Category{name, text(4)})
				}
				x.SetCategories(kinds)
			case 0:
				x.Delete(server)
				for at := range want {
					if at[0] == server {
						delete(want, at)
					}
				}
			case 1, 2:
				x.Delete(server, name, "none", name)
				delete(want, [2]string{server, name})
			default:
				d := Document{Server: server, Name: name, Description: text(5), Title: text(2), ServerText: text(2), Outputs: []string{text(1)}, Categories: []string{fmt.Sprint("c", r.IntN(4)), fmt.Sprint("c", r.IntN(4))}}
				x.Put(d)
				want[[2]string{server, name}] = d
			}
		}
		docs := make([]Document, 0, len(want))
		for _, d := range want {
			docs = append(docs, d)
		}
		anew := New()
		if seed%2 == 0 {
			anew.SetCategories(kinds)
		}
		anew.Put(docs...)
		anew.SetCategories(kinds)
		same(t, seed, x, anew, words)
		x.Delete("s0")
		x.Delete("s1")
		x.Delete("s2")
		x.Delete("s2")
		if x.Len() != 0 || len(x.terms)+len(x.grams)+len(x.servers) != 0 || len(x.free) != len(x.docs) || len(x.freeWords) != len(x.words) || len(x.freeServers) != len(x.said) {
			t.Fatalf("seed %d: an empty index keeps %d words, %d grams, %d servers", seed, len(x.terms), len(x.grams), len(x.servers))
		}
	}
}

func same(t *testing.T, seed uint64, x, anew *Index, words []string) {
	t.Helper()
	if x.Len() != anew.Len() || len(x.terms) != len(anew.terms) || len(x.grams) != len(anew.grams) || len(x.servers) != len(anew.servers) {
		t.Fatalf("seed %d: %d documents, %d words, %d grams, %d servers; anew %d, %d, %d, %d", seed,
			x.Len(), len(x.terms), len(x.grams), len(x.servers), anew.Len(), len(anew.terms), len(anew.grams), len(anew.servers))
	}
	for _, query := range append(words, "create issue. List emails of the repository", "profil emial 天気", "n3 s1") {
		a, b := x.Search(query, 20, nil), anew.Search(query, 20, nil)
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: %q finds\n%v\nanew\n%v", seed, query, a, b)
		}
	}
}

func TestPutTakesThePlaceOfANamesake(t *testing.T) {
	x := New()
	x.Put(Document{Server: "a", Name: "k", Description: "zebra"}, Document{Server: "b", Name: "k", Description: "zebra"})
	x.Put(Document{Server: "a", Name: "k", Description: "goat"})
	if x.Len() != 2 || len(x.docs) != 2 {
		t.Errorf("%d documents in %d places", x.Len(), len(x.docs))
	}
	if hit := only(t, x, "zebra"); hit.Server != "b" {
		t.Error(hit)
	}
	if hit := only(t, x, "goat"); hit.Server != "a" {
		t.Error(hit)
	}
	x.Delete("none")
	x.Delete("a", "none")
	if x.Len() != 2 {
		t.Error("what is not there was removed")
	}
}

// TestOrder compares what is returned with what sorting all documents gives, and sees to it that allowed is asked in that order, each once.
func TestOrder(t *testing.T) {
	x := New()
	for i := range 2000 {
		d := Document{Server: fmt.Sprint("s", i%7), Name: fmt.Sprint("n", i*7919%2000), Description: "zebra" + strings.Repeat(" zebra", i%5)}
		if i%3 > 0 {
			d.Description += ". plough" + strings.Repeat(" goat", i%11*3)
		}
		if i == 1234 {
			d.Name = "zebra plough goat"
		}
		x.Put(d)
	}
	for _, query := range []string{"zebra", "zebra plough goat", "goat. plough"} {
		all := x.Search(query, 1<<40, nil)
		if want := 2000; query == "zebra" && len(all) != want || len(all) < 1000 {
			t.Fatalf("%q finds %d", query, len(all))
		}
		if !slices.IsSortedFunc(all, func(a, b Hit) int {
			return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.Server, b.Server), strings.Compare(a.Name, b.Name))
		}) {
			t.Errorf("%q: not in order", query)
		}
		for _, limit := range []int{1, 10, 63, 64, 65, 500} {
			for _, refused := range []int{0, 1, 63, 64, 65, 127, 128, 129, 800} {
				asked := 0
				hits := x.Search(query, limit, func(server, name string) bool {
					if all[asked].Server != server || all[asked].Name != name {
						t.Fatalf("%q: %s %s is asked for in the place of %v", query, server, name, all[asked])
					}
					asked++
					return asked > refused
				})
				if want := all[min(refused, len(all)):min(refused+limit, len(all))]; !reflect.DeepEqual(hits, want) || asked != min(refused+limit, len(all)) {
					t.Fatalf("%q: %d of which %d are refused: %d hits, %d asked for", query, limit, refused, len(hits), asked)
				}
			}
		}
		if hits := x.Search(query, 5, func(string, string) bool { return false }); hits != nil {
			t.Errorf("%q: what is not allowed is returned: %v", query, hits)
		}
	}
	if x.Search("zebra", 0, nil) != nil || x.Search("zebra", -1, nil) != nil {
		t.Error("no limit has hits")
	}
}

// TestBestIsAsSorted has scores at random, some of them the same, so that batches end everywhere.
func TestBestIsAsSorted(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		s := &scratch{}
		docs, most := r.IntN(700), 400
		if seed < 10 { // a batch ends with the last
			docs, most = 2*leastBatch, 1
		}
		s.reset(docs, 0, false)
		var want []ranked
		for i := range s.scores {
			s.docs = append(s.docs, &document{server: fmt.Sprint(i % 3), name: fmt.Sprint(r.IntN(1000), " ", i)})
			score := float32(r.IntN(most)) / 100
			if most == 1 {
				score = 1
			}
			s.scores[i], s.highest = score, max(s.highest, score)
			if score > 0 {
				want = append(want, ranked{int32(i), score})
			}
		}
		slices.SortFunc(want, func(a, b ranked) int {
			d, e := s.docs[a.id], s.docs[b.id]
			return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(d.server, e.server), strings.Compare(d.name, e.name))
		})
		if n := 1 + r.IntN(100); len(want) >= n {
			floor := s.floor(n) * 0.9999
			above := 0
			for _, r := range want {
				if r.score >= floor {
					above++
				}
			}
			if above < n {
				t.Fatalf("seed %d: %d of %d are above %v, %d are wanted", seed, above, len(want), floor, n)
			}
		}
		var got []ranked
		s.best(1+r.IntN(leastBatch/2), func(r ranked) bool { got = append(got, r); return true })
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d, want %d: %v\nwant %v", seed, len(got), len(want), got, want)
		}
	}
}

// TestPlacesThatAreFree has documents of one score, which is the floor, beside the free place of the first.
func TestPlacesThatAreFree(t *testing.T) {
	x := New()
	x.Put(Document{Server: "a", Name: "zebra"}, Document{Server: "b", Name: "zebra"}, Document{Server: "c", Name: "zebra"})
	x.Delete("a")
	if hits := x.Search("zebra", 2, nil); len(hits) != 2 || hits[0].Server != "b" || hits[1].Server != "c" {
		t.Errorf("%v", hits)
	}
}

func TestAllowedHoldsNobodyUp(t *testing.T) {
	x := New()
	x.Put(Document{Server: "a", Name: "zebra"}, Document{Server: "a", Name: "zebra two", ServerText: "zebra"})
	hits := x.Search("zebra", 2, func(string, string) bool {
		x.Delete("a")
		x.Put(Document{Server: "b", Name: "goat", Description: "one more"})
		return true
	})
	if len(hits) != 2 || hits[0].Name != "zebra" || !slices.Equal(hits[1].Fields, []string{"name: zebra", "server: zebra"}) {
		t.Errorf("%v", hits)
	}
}

func TestConcurrentUse(t *testing.T) {
	x := New()
	var all sync.WaitGroup
	for w := range 4 {
		server := fmt.Sprint("s", w)
		all.Go(func() {
			for i := range 200 {
				x.Put(Document{Server: server, Name: fmt.Sprint("issue", i%20), Description: "list all issues", ServerText: fmt.Sprint("text", i%3)})
				if i%17 == 0 {
					x.Delete(server)
				}
				if i%5 == 0 {
					x.Delete(server, "issue3", "issue4")
				}
			}
		})
		all.Go(func() {
			for range 200 {
				for _, hit := range x.Search("list isues text1", 5, func(string, string) bool { return x.Len() >= 0 }) {
					if len(hit.Fields) == 0 || hit.Score <= 0 {
						t.Errorf("%v", hit)
					}
				}
			}
		})
	}
	all.Wait()
}

func TestWordsOfADocumentAreBounded(t *testing.T) {
	long := strings.Repeat("plough ", maxWords-1)
	x := New()
	x.Put(Document{Server: "s", Name: "k", Description: long + "zebra"}, Document{Server: "s", Name: "j", ServerText: long + "goat zebra"})
	if len(x.Search("zebra", 5, nil)) != 0 {
		t.Error("a word after the bound is found")
	}
	if len(x.Search("goat", 5, nil)) != 2 {
		t.Error("a word before the bound is not found")
	}
	x.Put(Document{Server: "s", Name: "k", Description: strings.Repeat("plough ", maxWords-2) + "zebra"})
	if hit := only(t, x, "zebra"); hit.Name != "k" {
		t.Error(hit)
	}
}
