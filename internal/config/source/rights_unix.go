//go:build unix

package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"dragoman/internal/config/value"
)

const (
	writeAll    = 0o002
	writeGroup  = 0o020
	writeAccess = 2 // W_OK of access(2)
)

// Rights returns who else may change a file that Dragoman acts upon, as a warning; empty if nobody but its user and root
// may. It looks at the file that the path leads to and at the directories above, in which a file could be replaced. A
// file that is not there gives none.
func Rights(path string) string {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	if target, err = filepath.Abs(target); err != nil {
		return ""
	}
	info, err := os.Stat(target)
	if err != nil || !info.Mode().IsRegular() || errors.Is(syscall.Access(target, writeAccess), syscall.EROFS) {
		return ""
	}
	what := fmt.Sprintf("%q", value.Shorten(path))
	if who := writers(info, writeAll|writeGroup); who != "" {
		return fmt.Sprintf("%s may be changed by %s, and with it what Dragoman runs and trusts; chmod 600 it, or chown it", what, who)
	}
	mask := os.FileMode(writeAll | writeGroup)
	for dir := filepath.Dir(target); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode()&os.ModeSticky == 0 {
			if who := writers(info, mask); who != "" {
				return fmt.Sprintf("%s may be replaced by %s, who may write to %q; chmod go-w the directory, or chown it", what, who, value.Shorten(dir))
			}
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
		mask = writeAll // system directories often belong to a group of administrators
	}
}

// writers returns who else may write, as far as mask has it; empty: only our user, and root.
func writers(info os.FileInfo, mask os.FileMode) string {
	mode := info.Mode().Perm()
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case mode&mask&writeAll != 0:
		return fmt.Sprintf("everybody on this machine (mode %04o)", mode)
	case mode&mask&writeGroup != 0 && (!ok || stat.Gid != 0):
		return fmt.Sprintf("its group (mode %04o)", mode)
	case ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid():
		return fmt.Sprintf("its owner, user %d", stat.Uid)
	}
	return ""
}
