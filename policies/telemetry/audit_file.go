package telemetry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// openTrail opens the file of an audit trail for appending, or creates it with mode 0600. The file must belong to Dragoman alone:
// a symbolic link is not followed, except below /dev, as of /dev/stdout; another user's file and one with a second name
// are refused; an existing file of a wider mode gets 0600. A named pipe must have a reader.
func openTrail(path string) (*os.File, error) {
	if path == "" {
		return os.Stderr, nil
	}
	flags := os.O_APPEND | os.O_CREATE | os.O_WRONLY | notBlocked
	if !strings.HasPrefix(path, "/dev/") {
		flags |= notFollowed
		if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return nil, fmt.Errorf("audit.file: %q is a symbolic link, which is not followed; fix: set audit.file to the file that it leads to", path)
		}
	}
	file, err := os.OpenFile(path, flags, 0o600) //nolint:gosec // G304: the file that the operator names
	if unread(err) {
		return nil, fmt.Errorf("audit.file: nobody reads the named pipe %q; fix: start its reader before Dragoman", path)
	}
	if err != nil {
		return nil, fmt.Errorf("audit.file: %w", err)
	}
	if err := secure(file); err != nil {
		return nil, errors.Join(fmt.Errorf("audit.file: %w", err), file.Close())
	}
	return file, nil
}

// secure refuses a file that others can change or replace, and takes their rights to it away.
func secure(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() && info.Mode()&fs.ModeNamedPipe == 0 {
		return nil // a terminal or another device
	}
	if err := owned(info); err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	if err := file.Chmod(0o600); err != nil {
		return fmt.Errorf("others have rights to %q, and they cannot be taken away: %w; fix: chmod 600 it", file.Name(), err)
	}
	return nil
}
