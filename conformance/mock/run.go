package mock

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// Options are those of a run.
type Options struct {
	Argv      []string // the client's command; {url} in it is the mock's URL, which is its last word otherwise
	Faces     []peer.Face
	Revisions []string
	Scenarios []string             // names; empty: all
	Timeout   time.Duration        // for one run of the client; 0: 30 s
	Wanted    func(id string) bool // of the checks; nil: all
	// Shape tells what is wrong with a message of the client's; nil: client.shape is not judged.
	Shape func(revision string, raw []byte) []suite.Misshape
	// Progress is called after each scenario; nil: nobody looks.
	Progress func(done, total int, scenario string, f []*suite.Finding)
}

// urlWord stands for the mock's URL.
const urlWord = "{url}"

// Run runs the client once for each scenario, face and revision, and judges what came. An error is that of a command that cannot be
// started.
func Run(ctx context.Context, o Options) ([]*suite.Finding, error) {
	type one struct {
		s        *Scenario
		face     peer.Face
		revision string
	}
	var all []one
	for _, face := range []peer.Face{peer.ModernHTTP, peer.LegacyHTTP} {
		for _, revision := range face.Revisions() {
			for _, s := range Scenarios() {
				if s.at(face, revision) && wanted(o.Faces, face) && wanted(o.Revisions, revision) && wanted(o.Scenarios, s.Name) {
					all = append(all, one{s, face, revision})
				}
			}
		}
	}
	var findings []*suite.Finding
	for i, x := range all {
		r := &run{scenario: x.s, face: x.face, revision: x.revision, began: time.Now(), lost: make(map[string]bool), ended: make(chan struct{}), pong: make(chan struct{})}
		if err := r.play(ctx, &o); err != nil {
			return findings, err
		}
		found := r.judge(&o)
		findings = append(findings, found...)
		if o.Progress != nil {
			o.Progress(i+1, len(all), x.s.Name, found)
		}
	}
	return findings, nil
}

func wanted[T comparable](list []T, x T) bool { return len(list) == 0 || slices.Contains(list, x) }

// play runs the client against the scenario's server.
func (r *run) play(ctx context.Context, o *Options) error {
	timeout := o.Timeout
	if timeout <= 0 {
		timeout = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("mock: %w", err)
	}
	srv := &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	var served sync.WaitGroup
	served.Go(func() { _ = srv.Serve(l) })
	url := "http://" + l.Addr().String() + "/mcp"
	err = r.client(ctx, o.Argv, url)
	close(r.ended)
	_ = srv.Shutdown(ctx)
	_ = srv.Close()
	served.Wait()
	return err
}

// client runs the command and waits for its end.
func (r *run) client(ctx context.Context, argv []string, url string) error {
	var words []string
	for _, w := range argv {
		words = append(words, strings.ReplaceAll(w, urlWord, url))
	}
	if slices.Equal(words, argv) {
		words = append(words, url)
	}
	env := append(os.Environ(), "MCP_CONFORMANCE_SCENARIO="+r.scenario.Name, "MCP_CONFORMANCE_PROTOCOL_VERSION="+r.revision)
	child, err := peer.StartChild(ctx, peer.Command{Argv: words, Env: env, Grace: 2 * time.Second}, nil)
	if err != nil {
		return fmt.Errorf("mock: the client: %w", err)
	}
	var last string
	for err == nil {
		var line string
		if line, err = child.Next(ctx); err == nil {
			last = line
		}
	}
	late := ctx.Err() != nil
	end, _ := child.Close()
	if said := child.Stderr(); len(said) > 0 {
		last = said[len(said)-1]
	}
	r.exit, r.failed = end, late || !strings.Contains(end, "exited with code 0 ")
	if late {
		r.exit = "it did not end in time"
	}
	if last != "" {
		r.exit += "; it said last: " + last
	}
	return nil
}

// judge makes the findings of a run.
func (r *run) judge(o *Options) (out []*suite.Finding) {
	for _, c := range table() {
		if !c.At(r.face, r.revision) || len(c.scenarios) > 0 && !slices.Contains(c.scenarios, r.scenario.Name) || o.Wanted != nil && !o.Wanted(c.ID) {
			continue
		}
		v := &verdict{run: r}
		switch {
		case c.ID == "client.shape" && o.Shape == nil:
			continue
		case c.ID == "client.shape":
			v.shapes(o.Shape)
		default:
			c.judge(v)
		}
		f := &suite.Finding{Check: &c.Check, Face: r.face, Revision: r.revision, Behind: r.scenario.Name, Problems: v.problems, Reason: v.skipped, TookMS: time.Since(r.began).Milliseconds()}
		switch {
		case len(v.problems) > 0:
			f.Outcome, f.Reason, f.Evidence = c.Level.Failure(), "", r.evidence()
		case v.skipped != "":
			f.Outcome = suite.Skipped
		default:
			f.Outcome = suite.Passed
		}
		out = append(out, f)
	}
	return out
}

func (v *verdict) shapes(shape func(revision string, raw []byte) []suite.Misshape) {
	seen := make(map[string]bool)
	v.each("", func(h *heard) {
		if h.message.Method == "server/discover" && !v.face.Modern() {
			return // it finds out which era this is
		}
		for _, p := range shape(v.version(), []byte(h.body)) {
			expected := what(h) + ", " + p.Place + ": " + p.Expected
			if !seen[expected] {
				seen[expected] = true
				v.fail(expected, "%s", p.Got)
			}
		}
	})
}
