package output

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"

	"github.com/goccy/go-json"
)

// ManifestName is the file in the output folder that names the generated files.
const ManifestName = ".dragoman-generate.json"

// manifest names the files that were generated, by the folders of their units.
type manifest struct {
	Note  string              `json:"note"`
	Units map[string][]string `json:"units"`
}

const note = "Written by dragoman generate, which removes what it names here and no longer generates. Keep it beside the files."

func readManifest(root *os.Root) (*manifest, error) {
	m := &manifest{Units: map[string][]string{}}
	raw, err := root.ReadFile(ManifestName)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, m)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; fix: remove it and the generated files", ManifestName, err)
	}
	for dir, files := range m.Units { // it may come from anywhere, such as a repository
		for _, f := range append(files, dir) {
			if !fs.ValidPath(f) {
				return nil, fmt.Errorf("%s: %q is no path in the folder; fix: remove it and the generated files", ManifestName, f)
			}
		}
	}
	return m, nil
}

// manifest returns the manifest of the plan.
func (w *writer) manifest() *manifest {
	m := &manifest{Note: note, Units: map[string][]string{}}
	for dir, files := range w.before.Units {
		if !slices.Contains(w.gone, dir) {
			m.Units[dir] = files
		}
	}
	for _, u := range w.plan.Units {
		files := []string{}
		for _, f := range u.Files {
			files = append(files, f.Path)
		}
		slices.Sort(files)
		m.Units[u.Dir] = files
	}
	return m
}

// with returns a manifest that also names the files of another.
func (m *manifest) with(other *manifest) *manifest {
	both := &manifest{Note: note, Units: maps.Clone(m.Units)}
	for dir, files := range other.Units {
		all := append(slices.Clone(files), both.Units[dir]...)
		slices.Sort(all)
		both.Units[dir] = slices.Compact(all)
	}
	return both
}

func (m *manifest) equal(other *manifest) bool {
	return maps.EqualFunc(m.Units, other.Units, slices.Equal[[]string])
}

// write replaces the manifest of a folder. temp is a folder in it.
func (m *manifest) write(root *os.Root, temp string) error {
	raw, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	name := path.Join(temp, "manifest")
	if err := root.WriteFile(name, append(raw, '\n'), 0o644); err != nil {
		return err
	}
	return root.Rename(name, ManifestName)
}
