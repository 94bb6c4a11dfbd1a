package qdrant

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"dragoman/adapters/search/vectors"
	"dragoman/adapters/search/vectors/vectorstest"
	"dragoman/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, opt Options, space vectors.Space) *Store {
	t.Helper()
	s, err := Open(opt, space)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestStore(t *testing.T) {
	vectorstest.Store(t, func(t *testing.T) vectors.Store {
		return open(t, Options{URL: "http://" + start(t).at}, vectorstest.Space)
	})
	t.Run("kept", func(t *testing.T) {
		f := start(t)
		vectorstest.Kept(t, func(space vectors.Space) vectors.Store { return open(t, Options{URL: "http://" + f.at}, space) })
	})
}

func point(server, tool string) vectors.Point {
	p := vectors.Point{Server: server, Tool: tool, Sum: [32]byte{1}, Vector: make([]float32, vectorstest.Dimension)}
	p.Vector[0] = 1
	return p
}

// Several Dragomans that begin at once share a collection, whose filters have indexes. A server is removed from every collection of ours, and
// nothing from those of others.
func TestShared(t *testing.T) {
	f := start(t)
	f.collections["of-others"] = &collection{size: 1}
	other := vectors.Space{Model: "other", Dimension: vectorstest.Dimension}
	stores := []*Store{open(t, Options{URL: "http://" + f.at}, vectorstest.Space), open(t, Options{URL: "http://" + f.at}, vectorstest.Space), open(t, Options{URL: "http://" + f.at}, other)}
	done := make(chan error, len(stores))
	for i, s := range stores {
		go func() { done <- s.Put(t.Context(), []vectors.Point{point("a", fmt.Sprint("t", i)), point("b", "t")}) }()
	}
	for range stores {
		if err := testkit.Receive(t, "a write", done); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []int{3, 3, 2} {
		if hits, err := stores[i].Search(t.Context(), point("", "").Vector, vectors.Filter{}, 10); err != nil || len(hits) != want {
			t.Errorf("%d: %v, %v", i, hits, err)
		}
	}
	if err := stores[1].RemoveServer(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	for i, s := range stores {
		if sums, err := s.Sums(t.Context()); err != nil || len(sums) != 1 || len(sums["b"]) != 1 {
			t.Errorf("%d: %v, %v", i, sums, err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.collections[stores[0].collection]; len(f.collections) != 3 || !slices.Contains(c.indexed, serverField) || !slices.Contains(c.indexed, categoriesField) {
		t.Errorf("%d collections; indexed: %v", len(f.collections), c.indexed)
	}
}

// What is stored is listed in pages, and what is put at once is sent in parts. Names and categories that gRPC does not take are left out.
func TestMany(t *testing.T) {
	f := start(t)
	space := vectors.Space{Model: "m", Dimension: 4096}
	s := open(t, Options{URL: "http://" + f.at}, space)
	var points []vectors.Point
	for i := range 400 {
		points = append(points, vectors.Point{Server: "a", Tool: fmt.Sprint(i), Vector: make([]float32, space.Dimension)})
	}
	points = append(points, vectors.Point{Server: "a", Tool: "\xff", Vector: points[0].Vector}, vectors.Point{Server: "b", Tool: "t", Vector: points[0].Vector, Categories: []string{"\xff", "y"}})
	if err := s.Put(t.Context(), points); err != nil { // 6.5 MB, which a server of gRPC does not take at once
		t.Fatal(err)
	}
	small := open(t, Options{URL: "http://" + f.at}, vectorstest.Space)
	for at := range 3 {
		batch := make([]vectors.Point, vectors.MaxBatch)
		for i := range batch {
			batch[i] = point("a", fmt.Sprint(at, "-", i))
		}
		if err := small.Put(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	if sums, err := small.Sums(t.Context()); err != nil || len(sums["a"]) != 3*vectors.MaxBatch || f.lists != 3 {
		t.Errorf("%d in %d lists, %v", len(sums["a"]), f.lists, err)
	}
	if sums, err := s.Sums(t.Context()); err != nil || len(sums["a"]) != 400 {
		t.Errorf("%d, %v", len(sums["a"]), err)
	}
	hits, err := s.Search(t.Context(), points[0].Vector, vectors.Filter{Servers: []string{"b", "\xff"}, Category: "y"}, 10)
	if err = errors.Join(err, s.SetCategories(t.Context(), "a", "\xff", nil), s.RemoveTools(t.Context(), "a", []string{"\xff"}), s.RemoveServer(t.Context(), "\xff")); err != nil || len(hits) != 1 {
		t.Errorf("%v, %v", hits, err)
	}
}

// Errors say what to do, and never the key. A collection that has gone is made anew, and a server that is back is used again.
func TestFailures(t *testing.T) {
	const key = "secret-0123456789"
	f := start(t)
	f.key = key
	for _, wrong := range []string{"", "another-0123456789"} {
		s := open(t, Options{URL: "http://" + f.at, Key: wrong}, vectorstest.Space)
		if err := s.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "fix: check its key") || wrong != "" && strings.Contains(err.Error(), wrong) {
			t.Errorf("with the key %q: %v", wrong, err)
		}
	}
	s := open(t, Options{URL: "http://" + f.at, Key: key}, vectorstest.Space)
	if err := s.Put(t.Context(), []vectors.Point{point("a", "x")}); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	clear(f.collections)
	f.mu.Unlock()
	if _, err := s.Sums(t.Context()); err == nil || !strings.Contains(err.Error(), "doesn't exist") {
		t.Errorf("without its collection: %v", err)
	}
	if sums, err := s.Sums(t.Context()); err != nil || len(sums) != 0 {
		t.Errorf("with a new one: %v, %v", sums, err)
	}
	f.server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := s.Search(ctx, point("", "").Vector, vectors.Filter{}, 1); err == nil || !strings.Contains(err.Error(), "cannot be reached") || strings.Contains(err.Error(), key) {
		t.Errorf("while it is away: %v", err)
	}
	ln, err := net.Listen("tcp", f.at)
	if err != nil {
		t.Fatal(err)
	}
	f.serve(ln)
	testkit.Eventually(t, "the store works again", func() bool {
		_, err := s.Sums(t.Context())
		return err == nil
	})
}

func TestOptions(t *testing.T) {
	for at, want := range map[string]string{
		"": "write http://HOST:6334", "qdrant:6334": "write http://HOST:6334", "http://u:hunter2@h": "write http://HOST:6334", "http://h/path": "write http://HOST:6334", "http://h?key=hunter2": "write http://HOST:6334",
		"http://qdrant.example": "fix: write https", "http://h:99999999999999999999": "URL of Qdrant is not valid", "https://h": "has no certificate",
	} {
		_, err := Open(Options{URL: at, Key: "k", CAFile: testkit.WriteFile(t, "roots.pem", "none")}, vectorstest.Space)
		if err == nil || !strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "port of Qdrant") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", at, err)
		}
	}
	if _, err := Open(Options{URL: "https://h", CAFile: "/nowhere"}, vectorstest.Space); err == nil {
		t.Error("without the file of the roots")
	}
	if _, err := Open(Options{URL: "http://h"}, vectors.Space{}); err == nil {
		t.Error("of no space")
	}
	for _, at := range []string{"http://localhost", "http://127.0.0.1:1", "http://[::1]:6334/", "https://qdrant.example"} {
		s, err := Open(Options{URL: at, Key: "k"}, vectorstest.Space)
		if err != nil {
			t.Errorf("%s: %v", at, err)
			continue
		}
		_ = s.Close()
	}
}

// A server over TLS is trusted by the roots of a file only, and may be sent the key.
func TestTLS(t *testing.T) {
	web := httptest.NewUnstartedServer(nil)
	web.StartTLS() // for its certificate
	t.Cleanup(web.Close)
	f := start(t, grpc.Creds(credentials.NewServerTLSFromCert(&web.TLS.Certificates[0])))
	f.key = "k"
	roots := testkit.WriteFile(t, "roots.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})))
	if err := open(t, Options{URL: "https://" + f.at, Key: "k", CAFile: roots}, vectorstest.Space).Ready(t.Context()); err != nil {
		t.Error(err)
	}
	if err := open(t, Options{URL: "https://" + f.at, Key: "k"}, vectorstest.Space).Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("trusted by the system's roots: %v", err)
	}
}
