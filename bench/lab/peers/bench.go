//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"dragoman/bench/load/drive"
	"dragoman/bench/measure"
)

const (
	startLimit = 2 * time.Minute // to the first correct answer
	// leastMemory is the free memory below which a step opens no more sessions.
	leastMemory = 4 << 30
	// settle is the pause before processes and memory are counted.
	settle = 3 * time.Second
	// goneLimit is how long the descendants of a contender may live after its end.
	goneLimit = 3 * time.Second
)

// bench is a run. It is for one goroutine, which is locked to its thread.
type bench struct {
	settings settings
	self     string // this program, which is the child of all contenders
	id       string // prefix of an argument of every child of this run
	dir      string
	progress io.Writer
	field    []contender
	absent   map[string]string // contenders that are left out, and why
	leftover []leftover
	count    int
}

func newBench(s settings, progress io.Writer) (*bench, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	dir, err := os.MkdirTemp("", "peers-")
	if err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	b := &bench{settings: s, self: self, dir: dir, progress: progress, absent: map[string]string{},
		id: "run-" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(time.Now().Unix(), 36)}
	for _, c := range contenders() {
		switch why := s.without[c.kit]; {
		case !s.wants(c.name):
		case why != "":
			b.absent[c.name] = why
		default:
			b.field = append(b.field, c)
		}
	}
	if len(b.field) == 0 {
		b.close()
		return nil, errors.New("peers: --only leaves no contender; --list names all")
	}
	return b, nil
}

func (b *bench) close() { _ = os.RemoveAll(b.dir) } // in the system's temporary directory

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.progress, time.Now().Format("15:04:05")+" "+format+"\n", args...)
}

// running is a running contender.
type running struct {
	contender *contender
	process   *measure.Process
	upstream  *measure.Process // the HTTP server behind it; nil: it has a child
	prepared  bool
	addr      string
	began     time.Time
	tree      *tree
}

// start starts a contender. It may not answer yet.
func (b *bench) start(ctx context.Context, c *contender, idleTTL time.Duration, extra string) (*running, error) {
	b.count++
	dir := filepath.Join(b.dir, fmt.Sprintf("%03d-%s", b.count, c.name))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	child := b.child(b.count)
	r := &running{contender: c, addr: "127.0.0.1:" + port}
	at := &place{settings: &b.settings, dir: dir, port: port, child: child, idleTTL: idleTTL, extra: extra}
	beside := 0
	if c.upstream {
		r.upstream, err = measure.Start(ctx, measure.Command{Name: "the server of " + c.name, Argv: []string{b.self, serveWord, c.serves()}, Log: filepath.Join(dir, "server"), Announces: true})
		if err != nil {
			return nil, err
		}
		at.upstream, at.merges, beside = r.upstreamURL(), c.merges, r.upstream.PID()
	}
	argv, err := c.argv(at)
	if err == nil {
		r.began = time.Now()
		r.process, err = measure.Start(ctx, measure.Command{Name: c.name, Argv: argv, Log: filepath.Join(dir, "log")})
	}
	if err != nil {
		r.stopUpstream()
		return nil, fmt.Errorf("peers: %s: %w", c.name, err)
	}
	r.tree = newTree(r.process.PID(), strings.Join(child, " "), beside)
	return r, nil
}

// upstreamURL is the URL of the HTTP server behind it.
func (r *running) upstreamURL() string { return "http://" + r.upstream.First + "/mcp" }

func (r *running) stopUpstream() {
	if r.upstream != nil {
		r.upstream.Stop()
	}
}

// child is the command line of the child. Its last word identifies the contender.
func (b *bench) child(n int) []string {
	return []string{b.self, echoWord, b.id + "-" + strconv.Itoa(n)}
}

// ready waits for the first correct answer and returns the time since the start.
func (r *running) ready(ctx context.Context, every time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	c := r.contender
	clients, err := drive.NewCallers(ctx, c.plan(c.face(), r.addr, size{Request: smallCall, Answer: smallCall}))
	if err != nil {
		return 0, err
	}
	for {
		err := r.answer(ctx, clients)
		if err == nil {
			return time.Since(r.began), nil
		}
		if ended := r.process.Failed(); ended != nil {
			return 0, ended
		}
		if measure.Pause(ctx, every) != nil {
			return 0, fmt.Errorf("peers: %s gives no correct answer: %w", r.contender.name, err)
		}
	}
}

// answer makes a call and returns what is wrong with the answer. It does not end its session.
func (r *running) answer(ctx context.Context, clients *drive.Callers) error {
	c := r.contender
	if c.prepare != nil && !r.prepared {
		if err := c.prepare(ctx, r.addr, r.upstreamURL()); err != nil {
			return err
		}
		r.prepared = true
	}
	one, err := clients.Open()
	if err != nil {
		return err
	}
	defer one.Leave()
	if !c.sessionless && c.face() != restful && c.face() != httpSSE && one.Session() == "" {
		return errors.New("peers: initialize was answered without a session id")
	}
	return one.Call()
}

// launch starts a contender and waits until it answers. A contender that never does is left out from then on.
func (b *bench) launch(ctx context.Context, c *contender, idleTTL time.Duration, extra string) (*running, error) {
	if why := b.absent[c.name]; why != "" {
		return nil, errors.New(why)
	}
	r, err := b.start(ctx, c, idleTTL, extra)
	if err == nil {
		if _, err = r.ready(ctx, 20*time.Millisecond); err != nil {
			b.stop(r)
		}
	}
	if err != nil && ctx.Err() == nil {
		b.absent[c.name] = err.Error()
		b.say("%s is left out: %v", c.name, err)
	}
	return r, err
}

// stop ends a contender by SIGTERM, as an operator would, counts the processes that it leaves behind, and ends them.
func (b *bench) stop(r *running) {
	_, _ = r.tree.read() // the processes at the end must be gone later; an unreadable /proc would have failed before
	r.process.Stop()
	r.stopUpstream()
	left := r.tree.survivors(goneLimit)
	if len(left) == 0 {
		return
	}
	b.leftover = append(b.leftover, leftover{r.contender.name, len(left), left[0].String()})
	b.say("%s has left %d processes behind: %s", r.contender.name, len(left), left[0])
	for _, p := range left {
		_ = syscall.Kill(p.PID, syscall.SIGKILL) // its own: see tree
	}
}

// availableMemory is the free memory of the machine in bytes.
func availableMemory() int64 {
	raw, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64) // 0 stops the step
			return kib << 10
		}
	}
	return 0
}
