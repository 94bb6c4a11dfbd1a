// Package archive writes what a store of a catalogue holds to a stream, and reads it into another store, of any kind: for backups, and to
// move from a file to a database.
//
// An archive is lines of JSON: one that names the format, one for each registration, one for each server with what it has listed, what of that was
// approved, and which categories a person has said of its tools, and one for each category that a person has changed.
// Secrets are in it as the store has them: as references, or sealed.
package archive

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/goccy/go-json"

	"dragoman/adapters/catalogue"
)

// Store is a store that can be archived.
type Store interface {
	catalogue.Store
	catalogue.Registry
	catalogue.OfTools
}

// version is the version of the format. Archives of newer versions are not read.
const version = 1

// maxLine bounds a line of an archive: a server with all that it lists.
const maxLine = 64 << 20

// line is one line. One of its fields is set.
type line struct {
	Version      int                     `json:"dragoman_catalogue,omitempty"`
	Registration *catalogue.Registration `json:"registration,omitempty"`
	Server       *server                 `json:"server,omitempty"`
	Category     *catalogue.Category     `json:"category,omitempty"`
}

// server is a server with its lists.
type server struct {
	ID, Name, Transport    string
	Origin                 []byte
	Registered             time.Time
	Revision, Instructions string
	Info, Capabilities     []byte
	Lists                  map[string]list // by the name of the kind
	Owns                   []string        // the URIs that belong to it
	Approved               []catalogue.Pin // its definitions that were approved
	Corrected              []corrected     `json:",omitempty"`
}

// corrected is a tool of which a person has said the categories.
type corrected struct {
	Tool   string
	Hash   []byte
	Skills []catalogue.Skill
	By     string
	At     time.Time
}

type list struct {
	Fetched time.Time
	Items   []item
}

type item struct {
	Key            string
	Raw            []byte
	Since, Changed time.Time
}

// Counts says how much was written or read.
type Counts struct {
	Registrations int
	Servers       int
	Definitions   int      // tools, prompts, resources and templates
	Skipped       []string // registrations whose name or id the store has already
}

// Write writes what a store holds.
func Write(ctx context.Context, to io.Writer, from Store) (n Counts, err error) {
	stored, err := from.Load(ctx)
	if err != nil {
		return n, err
	}
	all, err := from.Registrations(ctx)
	if err != nil {
		return n, err
	}
	categories, err := from.Categories(ctx)
	if err != nil {
		return n, err
	}
	said, err := from.Classifications(ctx)
	if err != nil {
		return n, err
	}
	out := bufio.NewWriter(to)
	put := func(l line) {
		raw, failed := json.MarshalWithOption(l, json.DisableHTMLEscape())
		_, wrote := out.Write(append(raw, '\n'))
		err = cmp.Or(err, failed, wrote)
	}
	put(line{Version: version})
	for i := range all {
		put(line{Registration: &all[i]})
	}
	for i := range categories {
		put(line{Category: &categories[i]})
	}
	slices.SortFunc(stored.Servers, func(a, b *catalogue.Server) int { return cmp.Compare(a.Name, b.Name) })
	for _, s := range stored.Servers {
		made := archived(s, stored.Owners)
		if made.Approved, err = from.Pins(ctx, s.ID); err != nil {
			return n, err
		}
		for _, l := range made.Lists {
			n.Definitions += len(l.Items)
		}
		made.Corrected = correctedOf(s.ID, said)
		put(line{Server: made})
	}
	n.Registrations, n.Servers = len(all), len(stored.Servers)
	return n, cmp.Or(err, out.Flush())
}

func archived(s *catalogue.Server, owners map[string]string) *server {
	made := &server{ID: s.ID, Name: s.Name, Transport: s.Transport, Origin: s.Origin, Registered: s.Registered, Revision: s.Revision, Instructions: s.Instructions,
		Info: s.Info, Capabilities: s.Capabilities, Lists: map[string]list{}}
	for kind := range catalogue.Kinds {
		if s.Lists[kind] == nil {
			continue
		}
		l := list{Fetched: s.Lists[kind].Fetched, Items: []item{}}
		for i := range s.Lists[kind].Items {
			one := &s.Lists[kind].Items[i]
			l.Items = append(l.Items, item{one.Key, one.Raw, one.Since, one.Changed})
		}
		made.Lists[kind.String()] = l
	}
	for uri, name := range owners {
		if name == s.Name {
			made.Owns = append(made.Owns, uri)
		}
	}
	slices.Sort(made.Owns)
	return made
}

// correctedOf returns the categories that persons have given the tools of a server. Classifiers find out the others again.
func correctedOf(server string, all []catalogue.Classification) (said []corrected) {
	for i := range all {
		if c := &all[i]; c.Person && c.Server == server {
			said = append(said, corrected{c.Tool, c.Hash[:], c.Skills, c.By, c.At})
		}
	}
	return said
}

// classifications reverses correctedOf.
func (s *server) classifications() (all []catalogue.Classification, err error) {
	for _, c := range s.Corrected {
		one := catalogue.Classification{ToolKey: catalogue.ToolKey{Server: s.ID, Tool: c.Tool}, State: catalogue.Classified, Skills: c.Skills, By: c.By, Person: true, At: c.At}
		if len(c.Hash) != len(one.Hash) {
			return nil, ErrFormat
		}
		one.Hash = [len(one.Hash)]byte(c.Hash)
		all = append(all, one)
	}
	return all, nil
}

// restored reverses archived.
func (s *server) restored() catalogue.Change {
	of := &catalogue.Server{ID: s.ID, Name: s.Name, Transport: s.Transport, Origin: s.Origin, Registered: s.Registered, Status: catalogue.Status{State: "DISCONNECTED"},
		Description: catalogue.Description{Revision: s.Revision, Instructions: s.Instructions, Info: s.Info, Capabilities: s.Capabilities}}
	change := catalogue.Change{Server: of, Parts: catalogue.Head, Owned: s.Owns}
	for kind := range catalogue.Kinds {
		from, known := s.Lists[kind.String()]
		if !known {
			continue
		}
		l := &catalogue.List{Fetched: from.Fetched}
		for _, one := range from.Items {
			l.Items = append(l.Items, catalogue.Item{Key: one.Key, Raw: one.Raw, Sum: sha256.Sum256(one.Raw), Since: one.Since, Changed: one.Changed})
		}
		l.Items = catalogue.Distinct(l.Items)
		of.Lists[kind] = l
		change.Parts |= 1 << kind
	}
	return change
}

// ErrFormat means that a stream is no archive, or one of a newer Dragoman.
var ErrFormat = errors.New("it is no archive of a catalogue that this Dragoman reads")

// Read adds the content of an archive to a store. It skips registrations whose name or id the store has, and servers whose id it has, with their
// lists, approvals and corrected categories, and categories that were changed in the store; with replace they replace those of the store. After an error the store keeps the lines that were read before it.
func Read(ctx context.Context, from io.Reader, to Store, replace bool) (n Counts, err error) {
	known, err := to.Registrations(ctx)
	if err != nil {
		return n, err
	}
	stored, err := to.Load(ctx)
	if err != nil {
		return n, err
	}
	in := bufio.NewScanner(from)
	in.Buffer(nil, maxLine)
	skipped := map[string]bool{} // by id
	for _, s := range stored.Servers {
		skipped[s.ID] = !replace
	}
	number := 0
	for in.Scan() {
		number++
		var l line
		if err := json.Unmarshal(in.Bytes(), &l); err != nil || number == 1 && l.Version != version {
			return n, fmt.Errorf("line %d: %w", number, ErrFormat)
		}
		switch {
		case l.Category != nil:
			if err := categorise(ctx, to, l.Category, replace); err != nil {
				return n, fmt.Errorf("line %d: the category %q: %w", number, l.Category.Name, err)
			}
		case l.Registration != nil:
			added, err := register(ctx, to, known, l.Registration, replace)
			if err != nil {
				return n, fmt.Errorf("line %d: %q: %w", number, l.Registration.Name, err)
			}
			if !added {
				n.Skipped, skipped[l.Registration.ID] = append(n.Skipped, l.Registration.Name), true
				continue
			}
			n.Registrations++
			skipped[l.Registration.ID] = false
		case l.Server != nil && !skipped[l.Server.ID]:
			change := l.Server.restored()
			if err := restore(ctx, to, l.Server, change); err != nil {
				return n, fmt.Errorf("line %d: %q: %w", number, l.Server.Name, err)
			}
			n.Servers++
			for _, kept := range change.Server.Lists {
				if kept != nil {
					n.Definitions += len(kept.Items)
				}
			}
		}
	}
	if number == 0 && in.Err() == nil {
		return n, ErrFormat
	}
	return n, in.Err()
}

// restore adds a server with what was approved and said of it.
func restore(ctx context.Context, to Store, s *server, change catalogue.Change) error {
	said, err := s.classifications()
	if err != nil {
		return err
	}
	err = to.Save(ctx, []catalogue.Change{change})
	if err == nil && len(s.Approved) > 0 {
		err = to.PutPins(ctx, s.ID, s.Approved)
	}
	if err == nil && len(said) > 0 {
		err = to.PutClassifications(ctx, said)
	}
	return err
}

// categorise adds a category that was changed, unless the store has another change of it and replace is not set.
func categorise(ctx context.Context, to catalogue.Categories, c *catalogue.Category, replace bool) error {
	if c.Name == "" {
		return ErrFormat
	}
	all, err := to.Categories(ctx)
	if err != nil || !replace && slices.ContainsFunc(all, func(has catalogue.Category) bool { return has.Name == c.Name }) {
		return err
	}
	return to.PutCategory(ctx, *c)
}

// register adds a registration. added is false if the store has one of its name or id, and replace is not set.
func register(ctx context.Context, to catalogue.Registry, known []catalogue.Registration, r *catalogue.Registration, replace bool) (added bool, err error) {
	if !bytes.HasPrefix(bytes.TrimSpace(r.Connection), []byte("{")) && !catalogue.Sealed(r.Connection) || r.ID == "" || r.Name == "" {
		return false, ErrFormat
	}
	r.Revision = 0
	for i := range known {
		if known[i].ID != r.ID && known[i].Name != r.Name {
			continue
		}
		if !replace {
			return false, nil
		}
		if known[i].ID != r.ID {
			if err := to.Remove(ctx, known[i].ID); err != nil && !errors.Is(err, catalogue.ErrGone) {
				return false, err
			}
			continue
		}
		r.Revision = known[i].Revision
	}
	_, err = to.Put(ctx, *r)
	if errors.Is(err, catalogue.ErrExists) || errors.Is(err, catalogue.ErrStale) { // changed since known was read
		return false, nil
	}
	return err == nil, err
}
