// Package output writes generated files into a folder, so that at every moment a file is whole, what did not change is not touched, and what
// is no longer generated goes. Files of anybody else are never changed or removed, and nothing is written outside of the folder or through a link.
package output

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// File is a file to write. Its path is relative, slash-separated, and made by the generator, never by a server.
type File struct {
	Path string
	Data []byte
	Exec bool // it is a program
}

// Unit is a folder that is written as a whole, such as the files for one server. The folder of a unit that is Open may hold others' files and
// units, too.
type Unit struct {
	Dir   string // "." is the output folder
	Open  bool
	Files []File
}

// Plan holds all that a run generates.
type Plan struct {
	Units []Unit
	Keep  []string // folders of units that could not be generated now, and stay as they are
	// Roots are the folders in which units that were generated once, and are neither planned nor kept, are removed.
	Roots []string
}

// Changes says what a run has done, or would do, by paths in order.
type Changes struct{ Created, Changed, Removed []string }

// Count returns the number of changed files.
func (c *Changes) Count() int { return len(c.Created) + len(c.Changed) + len(c.Removed) }

func (c *Changes) sort() {
	for _, all := range []*[]string{&c.Created, &c.Changed, &c.Removed} {
		slices.Sort(*all)
		*all = slices.Compact(*all)
	}
}

// ForeignError says that a folder holds files that were not generated.
type ForeignError struct{ Dir, File string }

func (e *ForeignError) Error() string {
	dir := e.Dir
	if dir == "." {
		dir = "the output folder"
	}
	return fmt.Sprintf("%s holds %s, which was not generated; fix: move it away, or generate into another folder", dir, e.File)
}

// caches are what interpreters and tools leave beside source files. They are no reason to keep a folder.
var caches = map[string]bool{"__pycache__": true, ".mypy_cache": true, ".ruff_cache": true, ".DS_Store": true}

// Check compares a folder with the plan, and changes nothing. A folder that does not exist is empty.
func Check(dir string, plan *Plan) (*Changes, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		c := &Changes{}
		for _, u := range plan.Units {
			for _, f := range u.Files {
				c.Created = append(c.Created, path.Join(u.Dir, f.Path))
			}
		}
		c.sort()
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the output folder cannot be opened: %w", err)
	}
	defer root.Close()
	w := &writer{root: root, plan: plan}
	if w.before, err = readManifest(root); err != nil {
		return nil, err
	}
	return w.compare()
}

// Write makes a folder what the plan says, and returns what has changed. The folder is made if it does not exist. If it fails, every file is what
// it was before or what it was to be, and the next run completes it.
func Write(dir string, plan *Plan) (_ *Changes, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // it is source code, which everybody may read
		return nil, fmt.Errorf("the output folder cannot be made: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("the output folder cannot be opened: %w", err)
	}
	defer root.Close()
	w := &writer{root: root, plan: plan}
	if w.before, err = readManifest(root); err != nil {
		return nil, err
	}
	c, err := w.compare()
	if err != nil || c.Count() == 0 && w.manifest().equal(w.before) {
		return c, err
	}
	return c, w.write()
}

// writer brings one folder to a plan.
type writer struct {
	root   *os.Root
	plan   *Plan
	before *manifest
	stale  []int    // places in plan.Units of those that have to be written
	gone   []string // folders of units that have to be removed
}

// compare finds what has to change.
func (w *writer) compare() (*Changes, error) {
	c := &Changes{}
	for i := range w.plan.Units {
		u := &w.plan.Units[i]
		n := c.Count()
		if err := w.unit(u, c); err != nil {
			return nil, err
		}
		if c.Count() > n {
			w.stale = append(w.stale, i)
		}
	}
	for dir, files := range w.before.Units {
		if w.planned(dir) || slices.Contains(w.plan.Keep, dir) || !slices.ContainsFunc(w.plan.Roots, func(root string) bool { return within(dir, root) }) {
			continue
		}
		if err := w.linkless(dir); err != nil {
			return nil, err
		}
		w.gone = append(w.gone, dir)
		for _, f := range files {
			c.Removed = append(c.Removed, path.Join(dir, f))
		}
	}
	slices.Sort(w.gone)
	c.sort()
	return c, nil
}

func within(dir, root string) bool { return dir == root || strings.HasPrefix(dir, root+"/") }

func (w *writer) planned(dir string) bool {
	return slices.ContainsFunc(w.plan.Units, func(u Unit) bool { return u.Dir == dir })
}

// unit compares a unit with its folder.
func (w *writer) unit(u *Unit, c *Changes) error {
	if err := w.linkless(u.Dir); err != nil {
		return err
	}
	wanted := make(map[string]bool, len(u.Files))
	for _, f := range u.Files {
		wanted[f.Path] = true
		name := path.Join(u.Dir, f.Path)
		info, err := w.root.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			c.Created = append(c.Created, name)
			continue
		case err != nil:
			return err
		case !info.Mode().IsRegular():
			return &ForeignError{Dir: u.Dir, File: f.Path}
		case u.Open && !slices.Contains(w.before.Units[u.Dir], f.Path):
			return &ForeignError{Dir: u.Dir, File: f.Path}
		}
		old, err := w.root.ReadFile(name)
		if err != nil {
			return err
		}
		if !bytes.Equal(old, f.Data) || (info.Mode()&0o100 != 0) != f.Exec {
			c.Changed = append(c.Changed, name)
		}
	}
	for _, f := range w.before.Units[u.Dir] {
		if !wanted[f] {
			if _, err := w.root.Lstat(path.Join(u.Dir, f)); err == nil {
				c.Removed = append(c.Removed, path.Join(u.Dir, f))
			}
		}
	}
	if u.Open {
		return nil
	}
	return w.foreign(u.Dir, wanted)
}

// linkless makes sure that no part of the path to a folder is a link.
func (w *writer) linkless(dir string) error {
	for at := dir; at != "."; at = path.Dir(at) {
		info, err := w.root.Lstat(at)
		if err == nil && !info.IsDir() {
			return fmt.Errorf("%s is not a folder; fix: move it away, or generate into another folder", at)
		}
	}
	return nil
}

// foreign fails if a folder holds a file that is neither wanted nor was generated before.
func (w *writer) foreign(dir string, wanted map[string]bool) error {
	return fs.WalkDir(w.root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case caches[d.Name()] && d.IsDir():
			return fs.SkipDir
		case d.IsDir() || caches[d.Name()]:
			return nil
		}
		file := strings.TrimPrefix(name, dir+"/")
		if !wanted[file] && !slices.Contains(w.before.Units[dir], file) {
			return &ForeignError{Dir: dir, File: file}
		}
		if w.before.Units[dir] == nil {
			return &ForeignError{Dir: dir, File: file}
		}
		return nil
	})
}

// write writes the stale units into a temporary folder and moves them to their places.
func (w *writer) write() error {
	var random [6]byte
	_, _ = rand.Read(random[:]) // it never fails
	temp := ".dragoman-generate-" + hex.EncodeToString(random[:])
	if err := w.root.Mkdir(temp, 0o755); err != nil {
		return err
	}
	defer func() { _ = w.root.RemoveAll(temp) }()
	// The manifest first names the files of before and after, so that whatever is left by a run that is killed can be told from others' files.
	if err := w.manifest().with(w.before).write(w.root, temp); err != nil {
		return err
	}
	for _, i := range w.stale {
		if err := w.place(&w.plan.Units[i], path.Join(temp, "unit")); err != nil {
			return err
		}
	}
	for _, dir := range w.gone {
		if err := w.remove(dir, w.before.Units[dir]); err != nil {
			return err
		}
	}
	return w.manifest().write(w.root, temp)
}

// place writes a unit into a temporary folder and puts it into its place.
func (w *writer) place(u *Unit, temp string) error {
	for _, f := range u.Files {
		name := path.Join(temp, f.Path)
		if err := w.root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if f.Exec {
			mode = 0o755
		}
		if err := w.root.WriteFile(name, f.Data, mode); err != nil {
			return err
		}
	}
	if u.Open {
		return w.pour(u, temp)
	}
	if err := w.root.MkdirAll(path.Dir(u.Dir), 0o755); err != nil {
		return err
	}
	old := temp + "-old"
	if err := w.root.Rename(u.Dir, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := w.root.Rename(temp, u.Dir); err != nil {
		return err
	}
	return w.root.RemoveAll(old)
}

// pour moves the files of an open unit to their places, one by one.
func (w *writer) pour(u *Unit, temp string) error {
	wanted := map[string]bool{}
	for _, f := range u.Files {
		wanted[f.Path] = true
		name := path.Join(u.Dir, f.Path)
		if err := w.root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		if err := w.root.Rename(path.Join(temp, f.Path), name); err != nil {
			return err
		}
	}
	rest := slices.DeleteFunc(slices.Clone(w.before.Units[u.Dir]), func(f string) bool { return wanted[f] })
	if err := w.remove(u.Dir, rest); err != nil {
		return err
	}
	return w.root.RemoveAll(temp)
}

// remove removes files of a folder, and the folders that are then empty.
func (w *writer) remove(dir string, files []string) error {
	folders := map[string]bool{}
	for _, f := range files {
		name := path.Join(dir, f)
		if err := w.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for at := path.Dir(name); at != "."; at = path.Dir(at) {
			folders[at] = true
		}
	}
	deepest := slices.SortedFunc(maps.Keys(folders), func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	for _, at := range deepest {
		left, err := fs.ReadDir(w.root.FS(), at)
		if err == nil && !slices.ContainsFunc(left, func(d fs.DirEntry) bool { return !caches[d.Name()] }) {
			err = w.root.RemoveAll(at)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
