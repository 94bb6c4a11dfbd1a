package registry

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dragoman/internal/config/value"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// registry is a registry of the test, with pages of two.
type fake struct {
	t *testing.T
	*httptest.Server
	entries []string // in order
	asked   []string // queries
	answer  func(w http.ResponseWriter, r *http.Request) bool
}

func serve(t *testing.T, entries ...string) *fake {
	f := &fake{t: t, entries: entries}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.asked = append(f.asked, r.URL.RequestURI())
		if f.answer != nil && f.answer(w, r) {
			return
		}
		q := r.URL.Query()
		at, _ := strconv.Atoi(q.Get("cursor"))
		var since time.Time
		if text := q.Get("updated_since"); text != "" {
			since, _ = time.Parse(time.RFC3339, text)
		}
		var page []string
		for ; at < len(f.entries) && len(page) < 2; at++ {
			e, err := parseEntry([]byte(f.entries[at]))
			if err == nil && (e.UpdatedAt.Before(since) || since.IsZero() && e.Status == Deleted) {
				continue
			}
			page = append(page, f.entries[at])
		}
		next := ""
		if at < len(f.entries) {
			next = `,"nextCursor":"` + strconv.Itoa(at) + `"`
		}
		fmt.Fprintf(w, `{"servers":[%s],"metadata":{"count":%d%s}}`, strings.Join(page, ","), len(page), next)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *fake) client() *Client {
	c, err := New(f.URL, value.Secret{})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(c.Close)
	return c
}

// item is an entry of a server, changed some minutes after the beginning of 2026.
func item(name, status string, minutes int) string {
	return fmt.Sprintf(`{"server":{"name":%q,"description":"about %s","version":"1.0.0","packages":[{"registryType":"npm"}]},"_meta":{"io.modelcontextprotocol.registry/official":{"status":%q,"isLatest":true,"updatedAt":%q}}}`,
		name, name, status, begin.Add(time.Duration(minutes)*time.Minute).Format(time.RFC3339))
}

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Addresses of registries that are refused, without what they hold.
func TestAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"https://registry.example/":           "",
		"http://127.0.0.1:8080/base/v0.1":     "",
		"registry.example":                    "is no URL",
		"ftp://registry.example":              "is no URL",
		"https://me:hunter2@registry.example": "holds a credential",
		"https://registry.example?k=hunter2":  "has a query",
		"http://registry.example":             "unencrypted",
	} {
		c, err := New(address, value.NewSecret("key"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: %v; want %q", address, err, want)
		}
		if c != nil {
			c.Close()
		}
	}
}

func TestVersion(t *testing.T) {
	f := serve(t)
	c := f.client()
	body, status := item("io.github.me/weather", Active, 0), 200
	f.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Location", "https://other.example/?secret=hunter2")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
		return true
	}
	if e, err := c.Version(t.Context(), "io.github.me/weather", "1.0.0"); err != nil || e.Server.Version != "1.0.0" || e.Status != Active {
		t.Errorf("%v %v", e, err)
	}
	if want := "/v0.1/servers/io.github.me%2Fweather/versions/1.0.0?include_deleted=true"; f.asked[0] != want {
		t.Errorf("asked for %s; want %s", f.asked[0], want)
	}
	for what, test := range map[string]struct {
		status              int
		body, name, version string
		want                string
	}{
		"not there":       {404, `{}`, "a/b", "latest", "does not have it"},
		"no name":         {200, body, "weather", "latest", "does not have it"},
		"a path":          {404, `{}`, "../../x", "latest", "does not have it"},
		"a homoglyph":     {200, body, "io.github.mе/weather", "latest", "does not have it"},
		"another name":    {200, body, "io.github.me/other", "latest", "answers with io.github.me/weather"},
		"another version": {200, body, "io.github.me/weather", "2.0.0", "answers with 1.0.0"},
		"no registry":     {200, "<html>", "a/b", "latest", "not that of an MCP registry"},
		"no server":       {200, `{}`, "a/b", "latest", `it has no "server"`},
		"a state":         {200, strings.Replace(body, "active", "hidden", 1), "io.github.me/weather", "latest", "status \"hidden\" is not known"},
		"a credential":    {401, `{}`, "a/b", "latest", "--registry-key"},
		"moved":           {302, ``, "a/b", "latest", "has moved to https://other.example/"},
		"too many":        {429, ``, "a/b", "latest", "try again later"},
		"its fault":       {500, `{"detail":"no \u001b[31mdatabase"}`, "a/b", "latest", `a fault of its own (500): no \u001b[31mdatabase`},
		"ours":            {422, `{"detail":"no"}`, "a/b", "latest", "does not take the request (422): no"},
		"too large":       {200, strings.Repeat(" ", maxServer+1), "a/b", "latest", "does not answer"},
	} {
		status, body = test.status, test.body
		_, err := c.Version(t.Context(), test.name, test.version)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v; want %q", what, err, test.want)
		}
		body = item("io.github.me/weather", Active, 0)
	}
}

// Lists are read to their end, and no further than that.
func TestAll(t *testing.T) {
	f := serve(t, item("a/a", Active, 0), item("a/b", Active, 0), item("a/c", Active, 0), item("bad name", Active, 0), item("a/d", Active, 0))
	c := f.client()
	var names []string
	refused := 0
	read := func(p *Page) error {
		for _, e := range p.Entries {
			names = append(names, e.Server.Name)
		}
		refused += len(p.Refused)
		return nil
	}
	if err := c.All(t.Context(), Query{}, read); err != nil || strings.Join(names, " ") != "a/a a/b a/c a/d" || refused != 1 {
		t.Errorf("%v %v %d", err, names, refused)
	}
	stop := errors.New("stop")
	if err := c.All(t.Context(), Query{}, func(*Page) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
	for what, test := range map[string]struct{ body, want string }{
		"a circle":   {`{"servers":[],"metadata":{"nextCursor":"again"}}`, "lead in a circle"},
		"a cursor":   {`{"servers":[],"metadata":{"nextCursor":"` + strings.Repeat("x", maxCursor+1) + `"}}`, "a cursor of more than"},
		"no list":    {`{"tools":[]}`, "not that of an MCP registry"},
		"deep":       {`{"servers":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`, "not that of an MCP registry"},
		"no entries": {`{"servers":null}`, "not that of an MCP registry"},
	} {
		f.answer = func(w http.ResponseWriter, _ *http.Request) bool {
			fmt.Fprint(w, test.body)
			return true
		}
		if err := c.All(t.Context(), Query{}, func(*Page) error { return nil }); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %q", what, err, test.want)
		}
	}
}

// A list is asked for as a whole, then for its changes each hour, and as a whole again the next day; it survives a registry that is away.
func TestMirror(t *testing.T) {
	f := serve(t, item("io.github.me/files", Active, 1), item("io.github.me/mail", Active, 2), item("io.github.me/weather", Deprecated, 3), item("bad name", Active, 4))
	now := begin.Add(time.Hour)
	m := &Mirror{Client: f.client(), Path: Path(t.TempDir(), f.URL), Now: func() time.Time { return now }}
	names := func(l *List) string {
		var all []string
		for _, one := range l.Servers {
			all = append(all, strings.TrimPrefix(one.Name, "io.github.me/")+" "+one.Status)
		}
		return strings.Join(all, ", ")
	}
	check := func(what, want string, asked int, since string) *List {
		t.Helper()
		f.asked = nil
		l, err := m.List(t.Context(), false)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if names(l) != want || len(f.asked) != asked || asked > 0 && strings.Contains(f.asked[0], "updated_since") != (since != "") || since != "" && !strings.Contains(f.asked[0], "updated_since="+since) {
			t.Errorf("%s: %s; asked %v", what, names(l), f.asked)
		}
		return l
	}
	const first = "files active, mail active, weather deprecated"
	if l := check("at first", first, 2, ""); l.Refused != 1 || !slices.Equal(l.Servers[0].Kinds, []string{KindNPM}) {
		t.Errorf("%d %v", l.Refused, l.Servers[0])
	}
	if info, err := os.Stat(m.Path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	now = now.Add(59 * time.Minute)
	check("still fresh", first, 0, "")

	// An hour later one was deleted, one changed, one is new.
	f.entries[0], f.entries[2] = item("io.github.me/files", Deleted, 70), item("io.github.me/weather", Active, 71)
	f.entries = append(f.entries, item("io.github.me/news", Active, 72))
	now = now.Add(2 * time.Minute)
	check("changes", "mail active, news active, weather active", 3, "2025-12-31T23%3A53%3A00Z")

	// The registry removes one without a word, and is away for a while.
	f.entries = f.entries[2:]
	now = now.Add(2 * time.Hour)
	check("it does not say so", "mail active, news active, weather active", 2, "2026-01-01T01%3A02%3A00Z")
	now = now.Add(2 * time.Hour)
	f.answer = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(502); return true }
	if l, err := m.List(t.Context(), false); err == nil || names(l) != "mail active, news active, weather active" || !l.At.Equal(now.Add(-2*time.Hour)) {
		t.Errorf("away: %v %v", l, err)
	}
	f.answer = nil
	now = now.Add(24 * time.Hour)
	check("as a whole", "news active, weather active", 2, "")

	// A damaged list, and one from the future, are read again.
	raw, _ := os.ReadFile(m.Path)
	for what, text := range map[string]string{"cut off": string(raw[:len(raw)-20]), "another": strings.Replace(string(raw), f.URL, "http://other", 1), "empty": "", "a line less": string(raw[:bytes.LastIndexByte(raw[:len(raw)-1], '\n')+1])} {
		if err := os.WriteFile(m.Path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		check(what, "news active, weather active", 2, "")
	}
	now = now.Add(-48 * time.Hour)
	check("from the future", "news active, weather active", 2, "")
	if all, _ := os.ReadDir(filepath.Dir(m.Path)); len(all) != 1 {
		t.Errorf("files are left: %v", all)
	}
}

func TestSearch(t *testing.T) {
	l := &List{Servers: []Listed{{Name: "a/files", Description: "Mail is here"}, {Name: "b/mail", Title: "Letters"}, {Name: "c/mail-files"}, {Name: "d/other", Description: "files"}}}
	for text, want := range map[string]string{"": "a/files b/mail c/mail-files d/other", "MAIL": "b/mail c/mail-files a/files", "files mail": "a/files c/mail-files", "letters": "b/mail", "none": ""} {
		var names []string
		for _, one := range l.Search(text, 0, 10).Servers {
			names = append(names, one.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q: %s; want %s", text, got, want)
		}
	}
	if f := l.Search("", 1, 2); f.Next != 3 || f.Total != 4 || len(f.Servers) != 2 || f.Servers[0].Name != "b/mail" {
		t.Errorf("%+v", f)
	}
	if f := l.Search("", 9, 2); f.Next != 0 || len(f.Servers) != 0 {
		t.Errorf("%+v", f)
	}
	if near := l.Near("b/mial"); !slices.Contains(near, "b/mail") {
		t.Errorf("%v", near)
	}
}

// Files follow redirects without the credential, within bounds.
func TestFetch(t *testing.T) {
	f := serve(t)
	f.answer = func(w http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/file", http.StatusFound)
		case "/circle":
			http.Redirect(w, r, "/circle", http.StatusFound)
		case "/away":
			http.Redirect(w, r, "http://198.51.100.1/x", http.StatusFound)
		case "/file":
			fmt.Fprint(w, "content"+r.Header.Get("Authorization"))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
		return true
	}
	c, err := New(f.URL, value.NewSecret("hunter2"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for path, want := range map[string]string{"/file": "", "/moved": "", "/circle": "more than 5 times", "/away": "at no https URL", "/none": "status 404"} {
		var b bytes.Buffer
		err := c.Fetch(t.Context(), f.URL+path, &b)
		if want == "" && (err != nil || b.String() != "content") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v %q; want %q", path, err, b.String(), want)
		}
	}
	if err := c.Fetch(t.Context(), "https://a:b@x.example/", new(bytes.Buffer)); err == nil {
		t.Error("an address with a credential")
	}
}

// Whatever a registry answers, no entry with a wrong name comes of it.
func FuzzPage(f *testing.F) {
	f.Add([]byte(`{"servers":[` + item("a/b", Active, 0) + `],"metadata":{"nextCursor":"x"}}`))
	f.Add([]byte(`{"servers":[{"server":{}},7]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := parsePage(data, "x")
		if err != nil {
			return
		}
		for _, e := range p.Entries {
			if one := listed(e); !ValidName(one.Name) || !ValidVersion(one.Version) || len(one.Description) > 600 {
				t.Errorf("%+v", one)
			}
		}
	})
}
