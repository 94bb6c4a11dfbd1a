package archive

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/catalogue/postgres"
	"dragoman/adapters/catalogue/sqlite"
	"dragoman/internal/testkit/database"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func file(t *testing.T) Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "c.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func table(t *testing.T, url string) Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), postgres.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// fill stores a registered server and one of the configuration, both with lists.
func fill(t *testing.T, s Store) {
	t.Helper()
	at := time.UnixMilli(1_800_000_000_123)
	for _, one := range []catalogue.Registration{
		{ID: "1", Name: "one", Description: "é", Transport: "STDIO", Connection: []byte(`{"command":"x","env":{"A":"env:A"}}`), Wanted: true, Disabled: []string{"t"}, Registered: at, Updated: at},
		{ID: "2", Name: "two", Transport: "HTTP", Connection: catalogue.NewVault(strings.Repeat("k", 32)).Seal("two", []byte(`{"base_url":"https://x"}`)), Registered: at, Updated: at},
	} {
		if _, err := s.Put(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	c, err := catalogue.Open(t.Context(), catalogue.Options{Store: kept{s}, Now: func() time.Time { return at }, Failed: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	c.Keep(map[string]catalogue.Kept{"one": {ID: "1", Transport: "STDIO"}, "two": {ID: "2", Transport: "HTTP"}, "file": {Transport: "SSE"}})
	c.SetOrigin("file", []byte{1, 2})
	c.Describe("file", catalogue.Description{Revision: "r", Info: []byte(`{"name":"f"}`), Capabilities: []byte(`{}`), Instructions: "i"})
	c.SetList("one", catalogue.Tools, catalogue.List{Items: []catalogue.Item{{Key: "t", Raw: []byte(`{"name": "t"}`)}}})
	c.SetList("file", catalogue.Resources, catalogue.List{Items: []catalogue.Item{{Key: "a:b", Raw: []byte(`{}`)}, {Key: "a:c", Raw: []byte(`{}`)}}})
	c.SetList("file", catalogue.Prompts, catalogue.List{})
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.PutPins(t.Context(), "1", []catalogue.Pin{{Kind: "tools", Key: "t\\u0000", Hash: [32]byte{1}, Definition: []byte(`{"name":"t"}`), By: "me", At: at}}); err != nil {
		t.Fatal(err)
	}
	skills := []catalogue.Skill{{Name: "web", Confidence: 1}}
	if err := s.PutClassifications(t.Context(), []catalogue.Classification{
		{ToolKey: catalogue.ToolKey{Server: "1", Tool: "t"}, Hash: [32]byte{2}, State: catalogue.Classified, Skills: skills, By: "person", Person: true, At: at},
		{ToolKey: catalogue.ToolKey{Server: "1", Tool: "u"}, Hash: [32]byte{3}, State: catalogue.Classified, Skills: skills, By: "local", At: at},
	}); err != nil {
		t.Fatal(err)
	}
	for _, one := range []catalogue.Category{{Name: "mail", Removed: true, At: at}, {Name: "web", Description: "Pages", Keywords: []string{"page"}, At: at}} {
		if err := s.PutCategory(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
}

// saidOf tests the categories of a store that fill has filled, or that was read from such a one: what persons have said.
func saidOf(t *testing.T, s Store, web string) {
	t.Helper()
	said, err := s.Classifications(t.Context())
	if err != nil || len(said) != 1 || said[0].Tool != "t" || !said[0].Person || said[0].Hash != [32]byte{2} || said[0].Skills[0].Name != "web" {
		t.Errorf("said of tools: %+v, %v", said, err)
	}
	changed, err := s.Categories(t.Context())
	if err != nil || len(changed) != 2 || !changed[0].Removed || changed[1].Description != web {
		t.Errorf("changed categories: %+v, %v; want %q", changed, err, web)
	}
}

// kept is a store that a catalogue does not close.
type kept struct{ Store }

func (kept) Close() error { return nil }

// content returns the archive of a store, so that stores can be compared.
func content(t *testing.T, s Store) string {
	t.Helper()
	var out bytes.Buffer
	if _, err := Write(t.Context(), &out, s); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// What is written from a store and read into another one, of the same or the other kind, is the same.
func TestRoundTrip(t *testing.T) {
	p := database.Start(t)
	for name, stores := range map[string][2]func() Store{
		"file to database": {func() Store { return file(t) }, func() Store { return table(t, p.Database(t)) }},
		"database to file": {func() Store { return table(t, p.Database(t)) }, func() Store { return file(t) }},
		"file to file":     {func() Store { return file(t) }, func() Store { return file(t) }},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := stores[0](), stores[1]()
			fill(t, from)
			want := content(t, from)
			n, err := Read(t.Context(), strings.NewReader(want), to, false)
			if err != nil || !reflect.DeepEqual(n, Counts{Registrations: 2, Servers: 3, Definitions: 3}) {
				t.Fatalf("read %+v, %v", n, err)
			}
			saidOf(t, to, "Pages")
			if got := content(t, to); normal(got) != normal(want) {
				t.Errorf("read\n%s\nof\n%s", got, want)
			}
			// Once more: what is there stays, or is replaced by the same.
			approved := func(by string) {
				t.Helper()
				if pins, err := to.Pins(t.Context(), "1"); err != nil || len(pins) != 1 || pins[0].By != by {
					t.Errorf("approved %+v, %v; want that of %s", pins, err, by)
				}
			}
			approved("me")
			if err := to.PutPins(t.Context(), "1", []catalogue.Pin{{Kind: "tools", Key: "t\\u0000", Definition: []byte("{}"), By: "another", At: time.UnixMilli(1)}}); err != nil {
				t.Fatal(err)
			}
			if err := to.PutCategory(t.Context(), catalogue.Category{Name: "web", Description: "Sites"}); err != nil {
				t.Fatal(err)
			}
			n, err = Read(t.Context(), strings.NewReader(want), to, false)
			if err != nil || !reflect.DeepEqual(n.Skipped, []string{"one", "two"}) || n.Registrations != 0 || n.Servers != 0 {
				t.Errorf("read again %+v, %v", n, err)
			}
			approved("another")
			saidOf(t, to, "Sites")
			if n, err = Read(t.Context(), strings.NewReader(want), to, true); err != nil || n.Registrations != 2 || n.Skipped != nil {
				t.Errorf("replaced %+v, %v", n, err)
			}
			approved("me")
			saidOf(t, to, "Pages")
			all, err := to.Registrations(t.Context())
			if err != nil || len(all) != 2 || all[0].Revision != 2 {
				t.Errorf("after that %+v, %v", all, err)
			}
		})
	}
}

// normal removes what differs between stores: the zone of times, and revisions.
func normal(archive string) string {
	return strings.NewReplacer("+00:00", "Z", `"Disabled":null`, `"Disabled":[]`).Replace(archive)
}

// One registered under the name of another in the archive is left, or replaced.
func TestSameName(t *testing.T) {
	from, to := file(t), file(t)
	fill(t, from)
	if _, err := to.Put(t.Context(), catalogue.Registration{ID: "other", Name: "one", Transport: "HTTP", Connection: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	archive := content(t, from)
	if n, err := Read(t.Context(), strings.NewReader(archive), to, false); err != nil || !reflect.DeepEqual(n.Skipped, []string{"one"}) || n.Registrations != 1 || n.Servers != 2 {
		t.Errorf("read %+v, %v", n, err)
	}
	if n, err := Read(t.Context(), strings.NewReader(archive), to, true); err != nil || n.Registrations != 2 {
		t.Errorf("replaced %+v, %v", n, err)
	}
	if all, err := to.Registrations(t.Context()); err != nil || len(all) != 2 || all[0].ID != "1" {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestWrongArchives(t *testing.T) {
	for _, text := range []string{"", "\n", "{}", `{"dragoman_catalogue":2}`, "no JSON", "{\"dragoman_catalogue\":1}\n{", "{\"dragoman_catalogue\":1}\n" + `{"registration":{"Name":"a","ID":"1","Connection":"YQ=="}}`,
		"{\"dragoman_catalogue\":1}\n" + `{"registration":{"Name":"","ID":"1","Connection":"e30="}}`, "{\"dragoman_catalogue\":1}\n" + `{"registration":{"Name":"a","Connection":"e30="}}`,
		"{\"dragoman_catalogue\":1}\n" + `{"category":{"Description":"none"}}`, "{\"dragoman_catalogue\":1}\n" + `{"server":{"ID":"1","Name":"a","Corrected":[{"Tool":"t","Hash":"YQ=="}]}}`} {
		to := file(t)
		if n, err := Read(t.Context(), strings.NewReader(text), to, false); !errors.Is(err, ErrFormat) || n.Registrations != 0 {
			t.Errorf("%q: %+v, %v", text, n, err)
		}
	}
	long := "{\"dragoman_catalogue\":1}\n" + strings.Repeat("x", maxLine+1)
	if _, err := Read(t.Context(), strings.NewReader(long), file(t), false); err == nil {
		t.Error("a line without an end was read")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Write(ctx, &bytes.Buffer{}, file(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("written without time: %v", err)
	}
}
