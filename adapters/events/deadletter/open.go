package deadletter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// open opens the file for appending, or creates it with mode 0600. It must be a regular file, not a symbolic link; a wider mode becomes 0600.
func (f *File) open() error {
	path := f.opt.Path
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("events.dead_letter: %q is no regular file; fix: name a file", path)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_RDWR|notFollowed, 0o600) //nolint:gosec // G304: the file that the operator names
	if err != nil {
		return fmt.Errorf("events.dead_letter: %w", err)
	}
	if err := f.use(file); err != nil {
		return errors.Join(fmt.Errorf("events.dead_letter: %w", err), file.Close())
	}
	return nil
}

// use makes an open file the one that is written. A line in it that was cut is ended.
func (f *File) use(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := file.Chmod(fs.FileMode(0o600)); err != nil {
			return fmt.Errorf("others have rights to %q, and they cannot be taken away: %w; fix: chmod 600 it", file.Name(), err)
		}
	}
	size := info.Size()
	whole, err := endsInLine(file, size)
	if err == nil && !whole {
		_, err = file.WriteString("\n")
		size++
	}
	if err != nil {
		return err
	}
	f.file, f.size = file, size
	return nil
}
