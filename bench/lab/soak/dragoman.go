//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"dragoman/bench/lab/soak/child"
	"dragoman/bench/lab/soak/client"
	"dragoman/bench/lab/soak/ledger"
	"dragoman/bench/lab/soak/procs"
	"dragoman/bench/measure"
)

const (
	startLimit  = 30 * time.Second
	scrapeLimit = 10 * time.Second
	exitLimit   = 30 * time.Second
	logLimit    = 16 << 20
	// pipeDelay is how long a process may hold Dragoman's stderr after Dragoman has exited.
	pipeDelay = 2 * time.Second
)

// dragoman is a running Dragoman.
type dragoman struct {
	name    string
	mark    string // entry of its children's environment
	program string
	pid     int
	cmd     *exec.Cmd
	log     *logFile
	addr    string // address of the listener
	admin   string
	exited  chan struct{}
	err     error // set before exited is closed
}

// launch starts a Dragoman. It is called from the goroutine of main only.
func (r *soak) launch(s *scenario) (*dragoman, error) {
	mark := r.id + "." + s.name
	file := filepath.Join(r.dir, s.name+".toml")
	if err := os.WriteFile(file, []byte(s.config(r.self, mark, r.until)), 0o600); err != nil {
		return nil, fmt.Errorf("soak: %w", err)
	}
	log, err := newLogFile(filepath.Join(r.dir, s.name+".log"))
	if err != nil {
		return nil, err
	}
	d := &dragoman{name: s.name, mark: child.RunVariable + "=" + mark, program: r.program, log: log, exited: make(chan struct{})}
	d.cmd = exec.Command(r.program, "serve", "--config", file)
	d.cmd.Env = measure.Environment()
	d.cmd.Stderr = log
	d.cmd.WaitDelay = pipeDelay
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err = r.keeper.Start(d.cmd); err != nil {
		log.close()
		return nil, err
	}
	d.pid = d.cmd.Process.Pid
	go func() { // until it exits
		d.err = r.keeper.Wait(d.cmd)
		log.close()
		close(d.exited)
	}()
	r.started = append(r.started, d)
	return d, nil
}

// ready waits until it listens.
func (d *dragoman) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	select {
	case at := <-d.log.listening:
		d.addr, d.admin = strings.TrimPrefix(at.Listen, "http://"), strings.TrimPrefix(at.Admin, "http://")
		return nil
	case <-d.exited:
		return fmt.Errorf("soak: the Dragoman %q does not start: %w; %s", d.name, d.exit(), d.log.tail())
	case <-ctx.Done():
		return fmt.Errorf("soak: the Dragoman %q does not listen: %w; %s", d.name, ctx.Err(), d.log.tail())
	}
}

var errExited = errors.New("exit code 0")

// exit returns how it exited. Call it after exited is closed.
func (d *dragoman) exit() error {
	if d.err == nil {
		return errExited
	}
	return d.err
}

func (d *dragoman) place(server string) client.Place {
	return client.Place{Addr: d.addr, Base: "/servers/" + server}
}

// read takes a reading.
func (d *dragoman) read(ctx context.Context) (ledger.Reading, error) {
	r, err := d.usage() // before the scrape, which needs a connection
	if err != nil {
		return r, err
	}
	text, err := d.metrics(ctx)
	if err != nil {
		return r, err
	}
	return r, r.AddMetrics(text)
}

// usage is the part of a reading that comes from the system, without a request to Dragoman.
func (d *dragoman) usage() (ledger.Reading, error) {
	var r ledger.Reading
	own, err := procs.ReadUsage(d.pid)
	if err != nil {
		return r, err
	}
	r.FDs, r.RSS, r.Code, r.Threads = own.FDs, own.RSS, own.Code, own.Threads
	all, err := d.family()
	if err != nil {
		return r, err
	}
	theirs := d.children(all)
	for _, p := range all {
		switch {
		case p.Zombie() && theirs[p.Parent]: // the child has to reap it
		case p.Zombie():
			r.Zombies++
		case !theirs[p.PID]:
			r.Helpers++
			if u, err := procs.ReadUsage(p.PID); err == nil { // it may have ended
				r.HelperFDs += u.FDs
				r.HelperRSS += u.RSS
			}
		default:
			r.Children++
		}
	}
	return r, nil
}

// children reports, by PID, which processes are alive and do not run Dragoman's program.
func (d *dragoman) children(all []procs.Process) map[int]bool {
	out := map[int]bool{}
	for _, p := range all {
		if !p.Zombie() && procs.Program(p.PID) != d.program {
			out[p.PID] = true
		}
	}
	return out
}

// family returns all processes that descend from this Dragoman or have its mark.
func (d *dragoman) family() ([]procs.Process, error) {
	t, err := procs.Read()
	if err != nil {
		return nil, err
	}
	all := t.Below(d.pid)
	known := map[int]bool{d.pid: true}
	for _, p := range all {
		known[p.PID] = true
	}
	for _, p := range t.Marked(d.mark) {
		if !known[p.PID] {
			all = append(all, p)
		}
	}
	return all, nil
}

func (d *dragoman) metrics(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeLimit)
	defer cancel()
	c, err := client.Dial(ctx, d.admin)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err = c.Send("GET", "/metrics", []client.Header{{Name: "Connection", Value: "close"}}, ""); err != nil {
		return "", err
	}
	h, err := c.Head()
	if err != nil {
		return "", err
	}
	text, err := client.All(c.Body(h))
	if err == nil && h.Status != 200 {
		err = &client.StatusError{Status: h.Status, Body: string(text)}
	}
	return string(text), err
}

// signal sends a signal to Dragoman itself.
func (d *dragoman) signal(s syscall.Signal) {
	select {
	case <-d.exited: // its PID may have been reused
	default:
		_ = d.cmd.Process.Signal(s) // it may have ended
	}
}

// gone waits for the exit and reports whether it came in time.
func (d *dragoman) gone(limit time.Duration) bool {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-d.exited:
		return true
	case <-t.C:
		return false
	}
}

// listening is the log line with Dragoman's addresses.
type listening struct {
	Message       string `json:"message"`
	Listen, Admin string
}

// logFile writes the beginning of a log to a file, and everything after keepAll.
type logFile struct {
	path      string
	listening chan listening

	mu    sync.Mutex
	file  *os.File
	size  int
	all   bool
	found bool
	line  []byte // an incomplete line, until the addresses are found
}

func newLogFile(path string) (*logFile, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("soak: %w", err)
	}
	return &logFile{path: path, file: file, listening: make(chan listening, 1)}, nil
}

// Write implements io.Writer. It never fails: a full disk must not stop Dragoman.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.found {
		l.look(p)
	}
	if l.file != nil && (l.all || l.size < logLimit) {
		n, _ := l.file.Write(p) // see above
		l.size += n
	}
	return len(p), nil
}

func (l *logFile) look(p []byte) {
	l.line = append(l.line, p...)
	for {
		line, rest, ok := bytes.Cut(l.line, []byte{'\n'})
		if !ok {
			return
		}
		l.line = rest
		var at listening
		if json.Unmarshal(line, &at) == nil && at.Message == "listening" {
			l.found, l.line = true, nil
			l.listening <- at
			return
		}
	}
}

func (l *logFile) keepAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = true
}

func (l *logFile) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		_ = l.file.Close() // everything is written
		l.file = nil
	}
}

const tailLimit = 2 << 10

// tail is the end of the log, in a form that fits behind an error.
func (l *logFile) tail() string {
	raw, err := os.ReadFile(l.path)
	if err != nil || len(raw) == 0 {
		return "its log is empty"
	}
	return "its log ends: " + strings.TrimSpace(string(raw[max(0, len(raw)-tailLimit):]))
}

// soak is one run.
type soak struct {
	settings settings
	self     string // this program
	program  string // Dragoman's
	dir      string // for logs and configurations
	id       string // part of the marks
	until    string // when children exit by themselves, in Unix time
	keeper   *procs.Keeper
	errs     io.Writer
	started  []*dragoman
}
