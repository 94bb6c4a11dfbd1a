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
	if c.File != "" && c.Enabled {
		l.checkFile(auditFileKey, c.File)
	}
}

// checkEvents reports sinks of events, and a file for what they do not take, that cannot be used.
func (l *loader) checkEvents() {
	e := &l.cfg.Events
	if e.DeadLetter != "" && len(e.Sinks) > 0 {
		l.checkFile(deadKey, e.DeadLetter)
	}
	for _, s := range e.Sinks {
		l.checkRoots(s.CAFile, sinkTable(s)+"ca_file")
	}
	l.cfg.checkSinks(l.fail, l.reported)
}

// checkFile reports a file that is to be appended to and cannot be.
func (l *loader) checkFile(key, path string) {
	fail := func(what, fix string) {
		l.fail(key, l.cfg.sources[key], fmt.Sprintf("%q is %s", value.Shorten(path), what), fix)
	}
	if isLink(path) {
		fail("a symbolic link, which is not followed", "set it to the file that it leads to")
	} else if isDirectory(path) {
		fail("a directory", "name a file in it")
	} else if !isDirectory(filepath.Dir(path)) {
		fail("in no directory that there is", "create the directory")
	} else if err := writable(path); err != nil {
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
