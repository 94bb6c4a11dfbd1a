package registry

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-json"

	"dragoman/internal/config/value"
)

// Limits of a list that is kept, and its ages.
const (
	maxList = 256 << 20 // bytes
	maxLine = 64 << 10
	// FreshFor is how long a list is used before its changes are asked for.
	FreshFor = time.Hour
	// wholeFor is how long a list lives on changes. Then it is read as a whole, because a registry need not tell what it has removed.
	wholeFor = 24 * time.Hour
	// overlap is how far behind the newest change the changes begin that are asked for: some are seen later than they are dated.
	overlap = 10 * time.Minute
)

// Listed is what a list has of the newest version of a server.
type Listed struct {
	Name          string    `json:"name"`
	Title         string    `json:"title,omitempty"`
	Description   string    `json:"description"`
	Version       string    `json:"version"`
	Status        string    `json:"status"`
	StatusMessage string    `json:"statusMessage,omitempty"`
	UpdatedAt     time.Time `json:"updatedAt,omitzero"`
	// Kinds are the kinds of its packages and remotes, see [Kinds].
	Kinds []string `json:"kinds"`

	latest bool
}

// listed returns an entry as a list has it.
func listed(e *Entry) Listed {
	l := Listed{Name: e.Server.Name, Title: cut(e.Server.Title), Description: cut(e.Server.Description), Version: e.Server.Version, Status: e.Status, StatusMessage: cut(e.StatusMessage), UpdatedAt: e.UpdatedAt, latest: e.Latest}
	add := func(kind string) {
		if slices.Contains(Kinds, kind) && !slices.Contains(l.Kinds, kind) {
			l.Kinds = append(l.Kinds, kind)
		}
	}
	for i := range e.Server.Packages {
		add(e.Server.Packages[i].Type)
	}
	for i := range e.Server.Remotes {
		add(map[string]string{"streamable-http": KindRemote, "sse": KindSSE}[e.Server.Remotes[i].Type])
	}
	return l
}

// cut returns the beginning of a text that is only shown.
func cut(text string) string {
	const most = 512
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// List is a list of the servers of a registry, kept in a file.
type List struct {
	// Servers are in the order of their names. Deleted ones are not among them.
	Servers []Listed

	head
	path string
}

// head is the first line of the file.
type head struct {
	Format  int       `json:"dragoman_registry_list"`
	Base    string    `json:"registry"`
	At      time.Time `json:"at"`      // when the registry was asked last
	Whole   time.Time `json:"whole"`   // when it was read as a whole
	Newest  time.Time `json:"newest"`  // the newest change
	Refused int       `json:"refused"` // entries that were left out, because they are not valid
	Count   int       `json:"servers"`
}

// format is the form of the file.
const format = 1

// Path returns the file of a registry's list below a directory: that of the user's caches, or another.
func Path(below, base string) string {
	sum := sha256.Sum256([]byte(base))
	host := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(base, "https://"), "http://")))
	return filepath.Join(below, "dragoman", "registry", host[:min(len(host), 64)]+"-"+hex.EncodeToString(sum[:6])+".jsonl")
}

// Kept returns the list of a registry that is in a file; the error is os.ErrNotExist if there is none.
func Kept(path, base string) (*List, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(io.LimitReader(f, maxList))
	lines.Buffer(make([]byte, maxLine), maxLine)
	l := &List{path: path}
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &l.head) != nil || l.Format != format || l.Base != base {
		return nil, fmt.Errorf("%s is no list of %s", path, base)
	}
	for lines.Scan() {
		var one Listed
		if len(l.Servers) >= MaxEntries || json.Unmarshal(lines.Bytes(), &one) != nil || !ValidName(one.Name) {
			return nil, fmt.Errorf("%s is damaged", path)
		}
		l.Servers = append(l.Servers, one)
	}
	if lines.Err() != nil || len(l.Servers) != l.Count {
		return nil, fmt.Errorf("%s is damaged", path)
	}
	return l, nil
}

// write writes the list into its file, wholly or not at all.
func (l *List) write() (err error) {
	dir := filepath.Dir(l.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".list-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriter(f)
	to := json.NewEncoder(w)
	err = to.Encode(&l.head)
	for i := range l.Servers {
		err = errors.Join(err, to.Encode(&l.Servers[i]))
	}
	if err = errors.Join(err, w.Flush(), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), l.path)
}

// Mirror keeps the list of a registry.
type Mirror struct {
	Client *Client
	// Path is the file, see [Path].
	Path string
	// Now is the clock.
	Now func() time.Time
}

// List returns the list, not older than [FreshFor]: an older one gets the changes that the registry tells since, and one of another day is read
// as a whole, as with refresh. If the registry gives no answer, the list that is there is returned together with that error. An error of the
// file that the list cannot be written to is returned like that, too.
func (m *Mirror) List(ctx context.Context, refresh bool) (*List, error) {
	now := m.Now()
	kept, err := Kept(m.Path, m.Client.Base())
	if err != nil || kept.At.After(now) {
		kept, refresh = nil, true
	}
	if kept != nil && !refresh && now.Sub(kept.At) < FreshFor {
		return kept, nil
	}
	next, err := m.read(ctx, kept, refresh, now)
	if err != nil {
		return kept, err
	}
	if err := next.write(); err != nil {
		return next, fmt.Errorf("the list of the registry cannot be kept: %w", err)
	}
	return next, nil
}

// read asks the registry for a whole list, or for the changes of one.
func (m *Mirror) read(ctx context.Context, kept *List, whole bool, now time.Time) (*List, error) {
	next := &List{path: m.Path, head: head{Format: format, Base: m.Client.Base(), Whole: now}}
	q := Query{Version: "latest"}
	servers := map[string]Listed{}
	if kept != nil && !whole && now.Sub(kept.Whole) < wholeFor && !kept.Newest.IsZero() {
		next.Whole, next.Newest, next.Refused = kept.Whole, kept.Newest, kept.Refused
		q.Since = kept.Newest.Add(-overlap)
		for _, one := range kept.Servers {
			servers[one.Name] = one
		}
	}
	err := m.Client.All(ctx, q, func(p *Page) error {
		next.Refused += len(p.Refused)
		for _, e := range p.Entries {
			one := listed(e)
			if one.UpdatedAt.After(next.Newest) && one.UpdatedAt.Before(now.Add(wholeFor)) {
				next.Newest = one.UpdatedAt
			}
			if before, is := servers[one.Name]; !is || replaces(&one, &before) {
				servers[one.Name] = one
			}
		}
		if len(servers) > MaxEntries {
			return fmt.Errorf("the registry %s lists more than %d servers", m.Client.Base(), MaxEntries)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, one := range servers {
		if one.Status != Deleted {
			next.Servers = append(next.Servers, one)
		}
	}
	slices.SortFunc(next.Servers, func(a, b Listed) int { return cmp.Compare(a.Name, b.Name) })
	next.At, next.Count = now, len(next.Servers)
	return next, nil
}

// replaces reports whether an entry takes the place of another one of the same name. A registry that does not select the newest versions by
// itself marks them.
func replaces(one, before *Listed) bool {
	if one.latest != before.latest {
		return one.latest
	}
	return !one.UpdatedAt.Before(before.UpdatedAt)
}

// Found is what a search has found.
type Found struct {
	Servers []Listed
	Total   int
	// Next is how many servers to leave out to see those that follow; 0: none do.
	Next int
}

// Search returns the servers whose names, titles or descriptions contain all words of a text, whatever their case. Those whose name contains
// it come first. offset and limit select a part.
func (l *List) Search(text string, offset, limit int) Found {
	words := strings.Fields(strings.ToLower(text))
	var first, later []Listed
	for _, one := range l.Servers {
		name, all := strings.ToLower(one.Name), strings.ToLower(one.Name+"\n"+one.Title+"\n"+one.Description)
		switch {
		case slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(all, w) }):
		case strings.Contains(name, strings.Join(words, " ")):
			first = append(first, one)
		default:
			later = append(later, one)
		}
	}
	all := append(first, later...)
	f := Found{Total: len(all)}
	offset = min(max(offset, 0), len(all))
	f.Servers = all[offset:min(offset+limit, len(all))]
	if end := offset + len(f.Servers); end < len(all) {
		f.Next = end
	}
	return f
}

// Near returns the names of servers that are similar to one, at most five. They are shown to a person and never taken: a name that is nearly
// another one may be meant to be taken for it.
func (l *List) Near(name string) (near []string) {
	names := make([]string, 0, len(l.Servers))
	for i := range l.Servers {
		names = append(names, l.Servers[i].Name)
	}
	return Nearest(name, names)
}

// Nearest is Near for some names.
func Nearest(name string, names []string) (near []string) {
	const most, candidates, difference = 5, 10_000, 3
	_, last, _ := strings.Cut(name, "/")
	var rest []string
	for _, one := range names {
		_, other, _ := strings.Cut(one, "/")
		if d := len(other) - len(last); len(rest) < candidates && d <= difference && d >= -difference && (strings.EqualFold(last, other) || value.Nearest(last, []string{other}) != "") {
			rest = append(rest, one)
		}
	}
	for len(near) < most {
		one := value.Nearest(name, rest)
		if one == "" {
			break
		}
		near = append(near, one)
		rest = slices.DeleteFunc(rest, func(other string) bool { return other == one })
	}
	return near
}
