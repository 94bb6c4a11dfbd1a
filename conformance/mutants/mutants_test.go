package mutants

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"dragoman/conformance/checks"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// program is the binary of this repository, built once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "dragoman")
	build := exec.Command("go", "build", "-o", file, ".")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return file, nil
})

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = flag.Set("test.parallel", strconv.Itoa(5*runtime.GOMAXPROCS(0))) // they mostly wait
	}
	code := m.Run()
	if file, err := program(); err == nil {
		_ = os.RemoveAll(filepath.Dir(file))
	}
	os.Exit(code)
}

// sound is the sound server: the demonstration server of this repository, alone over stdio and behind Dragoman over HTTP.
type sound struct {
	base   string // of HTTP
	file   string
	always peer.Fields // of every request

	mu     sync.Mutex
	offers map[string][]*suite.Offer // by face and revision
}

func start(t *testing.T) *sound {
	t.Helper()
	file, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, file, "--", file, "demo")
}

// serve starts the program as a proxy.
func serve(t *testing.T, file string, args ...string) *sound {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	ctx, cancel := context.WithCancel(context.Background())
	var log strings.Builder
	cmd := exec.CommandContext(ctx, file, append([]string{"serve", "--listen", address, "--admin", "off"}, args...)...)
	cmd.Stderr, cmd.Cancel, cmd.WaitDelay = &log, func() error { return cmd.Process.Signal(os.Interrupt) }, 10*time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	for end := time.Now().Add(20 * time.Second); ; {
		if res, err := http.Get("http://" + address + "/health"); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return &sound{base: "http://" + address, file: file, offers: make(map[string][]*suite.Offer)}
			}
		}
		if time.Now().After(end) {
			t.Fatal("the sound server does not answer: " + log.String())
		}
		time.Sleep(10 * time.Millisecond) // until it listens
	}
}

// target returns the sound server at a face, with a mutant in front of it; m may be nil.
func (s *sound) target(t *testing.T, face peer.Face, m *mutant) *peer.Target {
	t.Helper()
	out := &peer.Target{Timeout: 5 * time.Second}
	if m != nil {
		out.Timeout = 3 * time.Second // many mutants are caught by a timeout
	}
	if face.Stdio() {
		var spawn peer.Spawner = peer.Command{Argv: []string{s.file, "demo", "--log-level", "error"}}
		if m != nil {
			spawn = spawner{spawn, m, &state{}}
		}
		out.Program = spawn
		return out
	}
	url := s.base + map[peer.Face]string{peer.SSE: "/sse", peer.REST: ""}[face]
	if face == peer.ModernHTTP || face == peer.LegacyHTTP {
		url = s.base + "/mcp"
	}
	if m == nil {
		m = &mutant{}
	}
	out.HTTP = box(t, m, url, s.always)
	return out
}

// The sound server passes every check, at every face, also through the middlebox.
func TestSoundServerPasses(t *testing.T) {
	s := start(t)
	for _, face := range peer.Faces() {
		t.Run(string(face), func(t *testing.T) {
			t.Parallel()
			target := s.target(t, face, nil)
			offers := discover(t, target, face)
			o := suite.Options{Checks: checks.All(), Jobs: 2, Shape: suite.ServerShape} // the other faces run too
			for _, f := range suite.Run(t.Context(), target, offers, o) {
				switch f.Outcome {
				case suite.Passed:
				case suite.Skipped:
					t.Logf("%s: skipped: %s", f.Key(), f.Reason)
				default:
					if f.Check.Run == nil || !alone(t, target, offers, f) {
						t.Errorf("%s: %s %s", f.Key(), f.Outcome, describe(f))
					}
				}
			}
		})
	}
}

// discover returns what a target offers at a face.
func discover(t *testing.T, target *peer.Target, face peer.Face) []*suite.Offer {
	t.Helper()
	offers, tried := suite.Discover(t.Context(), target, []peer.Face{face}, nil)
	if len(offers) == 0 {
		t.Fatal(tried)
	}
	return offers
}

// alone reports whether a check passes by itself: some compare times, which are longer on a busy machine.
func alone(t *testing.T, target *peer.Target, offers []*suite.Offer, f *suite.Finding) bool {
	t.Helper()
	at := slices.IndexFunc(offers, func(o *suite.Offer) bool { return o.Revision == f.Revision })
	again := suite.Run(t.Context(), target, offers[at:at+1], suite.Options{Checks: []*suite.Check{f.Check}, Shape: suite.ServerShape})
	t.Logf("%s: %s, and alone %s", f.Key(), f.Outcome, again[0].Outcome)
	return again[0].Outcome == suite.Passed
}

// describe returns a finding with its evidence.
func describe(f *suite.Finding) string {
	var b strings.Builder
	b.WriteString(f.Reason)
	for _, p := range f.Problems {
		fmt.Fprintf(&b, "\n  expected %s\n  got %s", p.Expected, p.Got)
	}
	for _, l := range f.Evidence {
		mark := "<"
		if l.Out {
			mark = ">"
		}
		fmt.Fprintf(&b, "\n    %4d %s %s: %s", l.MS, mark, l.Where, strings.ReplaceAll(l.Text, "\n", "\n           "))
	}
	return b.String()
}

// slow has each of the mutants a second time, with streams that are too slow for a check that waits for a time.
func slow(mutants ...mutant) []mutant {
	all := slices.Clone(mutants)
	for _, m := range mutants {
		m.name, m.delay = m.name+" slowly", 300*time.Millisecond
		all = append(all, m)
	}
	return all
}

func mutants() (all []*mutant) {
	for _, area := range [][]mutant{modernMutants(), legacyMutants(), taskMutants(), shapeMutants(), authMutants(), furtherMutants(), restMutants()} {
		for i := range area {
			all = append(all, &area[i])
		}
	}
	return all
}

// Each mutant is caught by the check that it names.
func TestMutantsAreCaught(t *testing.T) {
	demo, tasks := start(t), startTasks(t)
	guarded := startGuarded(t, demo)
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			s := demo
			switch {
			case m.tasks:
				s = tasks
			case m.guarded:
				s = guarded
			case m.delay > 0:
				s = start(t) // its slow streams would not keep up with the changes of others
			}
			i := slices.IndexFunc(checks.All(), func(c *suite.Check) bool { return c.ID == m.caught })
			if i < 0 {
				t.Fatalf("there is no check %s", m.caught)
			}
			check := checks.All()[i]
			faces := m.faces
			if len(faces) == 0 {
				faces = check.Faces[:1]
			}
			for _, face := range faces {
				s.caught(t, m, check, face)
			}
		})
	}
}

// offer returns the offer of the server at a face and revision. It is discovered once, without a mutant, which might prevent that.
func (s *sound) offer(t *testing.T, face peer.Face, revisions []string) []*suite.Offer {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	key := fmt.Sprint(face, revisions)
	if s.offers[key] == nil {
		offers, tried := suite.Discover(t.Context(), s.target(t, face, nil), []peer.Face{face}, revisions)
		if len(offers) != 1 {
			t.Fatalf("%s: %d offers: %v", face, len(offers), tried)
		}
		s.offers[key] = offers
	}
	return s.offers[key]
}

func (s *sound) caught(t *testing.T, m *mutant, check *suite.Check, face peer.Face) {
	t.Helper()
	var revisions []string
	if list := face.Revisions(); len(list) > 0 {
		revisions = list[len(list)-1:]
	}
	if m.at != "" {
		revisions = []string{m.at}
	}
	offers := s.offer(t, face, revisions)
	list := []*suite.Check{check}
	for _, c := range checks.All() {
		if check.Run == nil && slices.Contains(m.seen, c.ID) { // it judges the messages of others
			list = append(list, c)
		}
	}
	findings := suite.Run(t.Context(), s.target(t, face, m), offers, suite.Options{Checks: list, Shape: suite.ServerShape})
	findings = slices.DeleteFunc(findings, func(f *suite.Finding) bool { return f.Check.ID != check.ID })
	if len(findings) == 0 {
		t.Errorf("%s: the check was not tried", face)
	}
	for _, f := range findings {
		switch f.Outcome {
		case suite.Failed, suite.Warned, suite.Noted:
		default:
			t.Errorf("%s: %s, %s", f.Key(), f.Outcome, describe(f))
		}
	}
}

// Every check for a MUST has a mutant that it catches.
func TestEveryMustHasAMutant(t *testing.T) {
	for _, c := range checks.All() {
		if c.Level == suite.Must && !slices.ContainsFunc(mutants(), func(m *mutant) bool { return m.caught == c.ID }) {
			t.Errorf("no mutant for %s", c.ID)
		}
	}
}
