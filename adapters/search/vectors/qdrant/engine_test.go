package qdrant

import (
	"bufio"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"dragoman/adapters/search/vectors"
	"dragoman/adapters/search/vectors/vectorstest"
)

var engine = flag.String("engine", "", "the directory conformance/qdrant, after its setup.sh")

// startEngine starts a server with Qdrant's own engine, and returns its URL.
func startEngine(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(*engine, ".venv/bin/python"), filepath.Join(*engine, "server.py"), t.TempDir())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return "http://127.0.0.1:" + strings.TrimSpace(port)
}

// Qdrant's own engine passes the tests of every store: what the fake does is what Qdrant does.
func TestEngine(t *testing.T) {
	if *engine == "" {
		t.Skip("make qdrant runs this")
	}
	vectorstest.Store(t, func(t *testing.T) vectors.Store {
		return open(t, Options{URL: startEngine(t)}, vectorstest.Space)
	})
	t.Run("kept", func(t *testing.T) {
		at := startEngine(t)
		vectorstest.Kept(t, func(space vectors.Space) vectors.Store { return open(t, Options{URL: at}, space) })
	})
}
