package bundle

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"dragoman/internal/imported"
)

// Directory returns where bundles are unpacked unless somebody says otherwise: dragoman/bundles in the user's directory for configurations.
func Directory() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("bundles have no place: %w; fix: name a directory with --bundles", err)
	}
	return filepath.Join(dir, "dragoman", "bundles"), nil
}

// Place returns the directory below another in which the bundle is unpacked: NAME-VERSION-SHA12.
func (b *Bundle) Place(below string) string {
	const short = 12
	version := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '.' || r == '-' || r == '+' {
			return r
		}
		return '_'
	}, b.Manifest.Version)
	name := imported.Name(b.Manifest.Name, func(string) bool { return false })
	return filepath.Join(below, name+"-"+strings.Trim(version[:min(len(version), 64)], ".")+"-"+b.SHA256[:short])
}

// Unpack unpacks the bundle into [Bundle.Place], which only the user can read, and returns that directory. It is there wholly or not at all. One
// that is there already stays as it is.
func (b *Bundle) Unpack(below string) (dir string, err error) {
	below, err = filepath.Abs(below)
	if err != nil {
		return "", err
	}
	dir = b.Place(below)
	if info, err := os.Lstat(dir); err == nil {
		if !info.IsDir() {
			return "", fmt.Errorf("%s is in the way: it is no directory; fix: remove it", dir)
		}
		return dir, nil
	}
	if err := os.MkdirAll(below, 0o700); err != nil {
		return "", fmt.Errorf("the bundle cannot be unpacked: %w; fix: name a directory with --bundles", err)
	}
	temporary, err := os.MkdirTemp(below, ".unpacking-") // 0700
	if err != nil {
		return "", fmt.Errorf("the bundle cannot be unpacked: %w; fix: name a directory with --bundles", err)
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	if err := b.write(temporary); err != nil {
		return "", fmt.Errorf("the bundle cannot be unpacked: %w", err)
	}
	if again, err := b.sum(); err != nil || again != b.SHA256 {
		return "", errors.New("the bundle has changed while it was unpacked; fix: get it again")
	}
	if err := os.Rename(temporary, dir); err != nil {
		if info, there := os.Lstat(dir); there == nil && info.IsDir() { // another process was faster
			return dir, nil
		}
		return "", fmt.Errorf("the bundle cannot be unpacked: %w", err)
	}
	return dir, nil
}

// write writes all files into a new directory, and nowhere else.
func (b *Bundle) write(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for _, f := range b.files {
		if parent := path.Dir(f.Name); parent != "." {
			if err := root.MkdirAll(filepath.FromSlash(parent), 0o700); err != nil {
				return err
			}
		}
		if err := b.writeFile(root, f); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

// writeFile writes one file of the size that the archive says.
func (b *Bundle) writeFile(root *os.Root, f *zip.File) error {
	mode := fs.FileMode(0o600)
	if f.Mode()&0o111 != 0 || b.Manifest.Server.Type == Binary && f.Name == path.Clean(b.Manifest.Server.EntryPoint) {
		mode = 0o700
	}
	to, err := root.OpenFile(filepath.FromSlash(f.Name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	from, err := f.Open()
	if err == nil {
		var n int64
		n, err = io.Copy(to, io.LimitReader(from, int64(f.UncompressedSize64)+1)) //nolint:gosec // at most maxUnpacked
		if err == nil && uint64(n) != f.UncompressedSize64 {                      //nolint:gosec // it is not negative
			err = errors.New("it does not have the size that the archive says")
		}
		_ = from.Close()
	}
	return errors.Join(err, to.Close())
}
