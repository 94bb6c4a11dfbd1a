package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"dragoman/internal/config/value"
)

// checkAudit reports an audit.file that cannot exist.
func (l *loader) checkAudit() {
	c := &l.cfg.Audit
	if c.File == "" || !c.Enabled {
		return
	}
	fail := func(what, fix string) {
		l.fail(auditFileKey, l.cfg.sources[auditFileKey], fmt.Sprintf("%q is %s", value.Shorten(c.File), what), fix)
	}
	if isLink(c.File) {
		fail("a symbolic link, which is not followed", "set it to the file that it leads to")
	} else if isDirectory(c.File) {
		fail("a directory", "name a file in it")
	} else if !isDirectory(filepath.Dir(c.File)) {
		fail("in no directory that there is", "create the directory")
	} else if err := writable(c.File); err != nil {
		fail(fmt.Sprintf("not writable: %v", value.Reason(err)), "check its owner and its mode")
	}
}

// writable returns why a file cannot be written; nil if it can, or is not there. Others than regular files are not opened: a named pipe
// would wait for its reader, which would take the end of the check for that of the trail.
func writable(path string) error {
	info, err := os.Stat(path)
	switch {
	case os.IsNotExist(err), err == nil && !info.Mode().IsRegular():
		return nil
	case err != nil:
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	return f.Close() // nothing was written
}

// isLink reports whether path is a symbolic link other than those below /dev, such as /dev/stdout, which are followed.
func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0 && !strings.HasPrefix(path, "/dev/")
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
