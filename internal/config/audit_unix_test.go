//go:build unix

package config

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"dragoman/internal/testkit"
)

// The check of audit.file neither waits for the reader of a named pipe nor ends what it reads.
func TestAuditFileIsNoPipeToTheCheck(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	file := testkit.WriteFile(t, "config.toml", "[upstreams.a]\nurl = \"http://h.example/\"\n[audit]\nenabled = true\nfile = '"+pipe+"'\n")
	loaded := make(chan error, 1)
	check := func() {
		t.Helper()
		go func() { _, err := load(t, file, nil); loaded <- err }()
		if err := testkit.Receive(t, "the end of the check", loaded); err != nil {
			t.Error(err)
		}
	}
	check()
	read := make(chan string, 1)
	go func() {
		text, err := os.ReadFile(pipe) // begins with the first writer, and ends with the last
		if err != nil {
			t.Error(err)
		}
		read <- string(text)
	}()
	check()
	writer, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = writer.WriteString("a line")
	_ = writer.Close()
	if got := testkit.Receive(t, "what was read", read); got != "a line" {
		t.Errorf("the reader got %q", got)
	}
}

// A file that cannot be opened for writing is a mistake.
func TestAuditFileNotWritable(t *testing.T) {
	running, err := os.Executable() // which even root may not write
	if err != nil {
		t.Fatal(err)
	}
	file := testkit.WriteFile(t, "config.toml", "[upstreams.a]\nurl = \"http://h.example/\"\n[audit]\nenabled = true\nfile = '"+running+"'\n")
	if _, err := load(t, file, nil); err == nil || !strings.Contains(err.Error(), "not writable") {
		t.Errorf("%v", err)
	}
}

// A symbolic link, which serve does not follow, is a mistake; not so those below /dev.
func TestAuditFileIsNoLink(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(testkit.WriteFile(t, "audit", ""), link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{link: "audit.file: \"" + link + "\" is a symbolic link, which is not followed", "/dev/stderr": ""} {
		file := testkit.WriteFile(t, "config.toml", "[upstreams.a]\nurl = \"http://h.example/\"\n[audit]\nenabled = true\nfile = '"+path+"'\n")
		if _, err := load(t, file, nil); (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
