//go:build unix

package telemetry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

const (
	notFollowed = syscall.O_NOFOLLOW
	// notBlocked opens a named pipe without waiting for its reader.
	notBlocked = syscall.O_NONBLOCK
)

// unread reports whether a named pipe could not be opened for want of a reader.
func unread(err error) bool { return errors.Is(err, syscall.ENXIO) }

// owned refuses a file of another user, and one with several names: one of them may be in a directory of another user.
func owned(info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	if user := os.Geteuid(); int(stat.Uid) != user && stat.Uid != 0 {
		return fmt.Errorf("the file belongs to user %d, who can read and change it; fix: chown it to user %d, or name another file", stat.Uid, user)
	}
	if stat.Nlink > 1 {
		return fmt.Errorf("the file has %d names (hard links); fix: remove the others, or name another file", stat.Nlink)
	}
	return nil
}
