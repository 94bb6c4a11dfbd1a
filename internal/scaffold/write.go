package scaffold

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// Modes of what is written, less the umask.
const (
	fileMode   = 0o644
	folderMode = 0o755
)

// Write writes a project into the folder dir, whose parent must exist. All files are written beside it first, and renamed in one step: after an
// error nothing is there. A folder that has something in it, a file and a link are refused, and nothing is written through links below the parent.
func (p *Project) Write(dir string) error {
	files, err := p.render()
	if err != nil {
		return err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("scaffold: %w", err)
	}
	parent, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return fmt.Errorf("scaffold: %w; fix: make that folder, or choose another with --dir", err)
	}
	defer parent.Close()
	name := filepath.Base(dir)
	if err := vacant(parent, name, dir); err != nil {
		return err
	}
	temporary := "." + p.Name + "-" + rand.Text()
	if err := fill(parent, temporary, files); err != nil {
		_ = parent.RemoveAll(temporary) // the error before it says what happened
		return fmt.Errorf("scaffold: %w; fix: is there space, and may you write into %s?", err, filepath.Dir(dir))
	}
	if err := place(parent, temporary, name); err != nil {
		_ = parent.RemoveAll(temporary) // as above
		return fmt.Errorf("scaffold: %w; fix: choose another folder with --dir", err)
	}
	return nil
}

// vacant returns an error unless name is an empty folder or nothing.
func vacant(parent *os.Root, name, shown string) error {
	info, err := parent.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("scaffold: %w; fix: choose another folder with --dir", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("scaffold: %s is there and is no folder; fix: remove it, or choose another with --dir", shown)
	}
	entries, err := fs.ReadDir(parent.FS(), name)
	if err != nil {
		return fmt.Errorf("scaffold: %w; fix: choose another folder with --dir", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("scaffold: the folder %s is not empty; fix: empty it, or choose another with --dir", shown)
	}
	return nil
}

// fill makes a folder with files.
func fill(parent *os.Root, name string, files []file) error {
	if err := parent.Mkdir(name, folderMode); err != nil {
		return err
	}
	root, err := parent.OpenRoot(name)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range files {
		if err := root.MkdirAll(path.Dir(f.path), folderMode); err != nil {
			return err
		}
		if err := root.WriteFile(f.path, []byte(f.text), fileMode); err != nil {
			return err
		}
	}
	return nil
}

// place renames the folder that was filled. An empty one in its place is removed first, as not every system renames over it.
func place(parent *os.Root, from, to string) error {
	if err := parent.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return parent.Rename(from, to)
}
