package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"dragoman/bench/load/drive"
	"dragoman/bench/measure"
	"dragoman/bench/reference"
)

const (
	startLimit = 20 * time.Second // from the start of a process to its first correct answer
	retryAfter = 20 * time.Millisecond
	path       = "/mcp"
)

// errAbsent means that a program is not installed. Its cells are left out.
var errAbsent = errors.New("not on this machine")

// target is a running process under test.
type target struct {
	addr    string
	process *measure.Process
	behind  *measure.Process // the server that it calls; nil if it has a child or is a server itself
	header  string           // a header line for requests to it
	paths   []string         // nil: path
	admin   string           // its admin listener; empty: it has none
	tool    string           // its name of the tool; empty: the server's
	object  bool             // it answers with a JSON object that has the text as its member text
}

// targets starts processes on demand and stops all of them at the end. It is for one goroutine, locked to its thread (see measure.Start).
type targets struct {
	settings settings
	self     string // this program, for the roles
	dir      string // for logs and configuration; the caller removes it
	running  map[string]target
	order    []string
	special  map[string]func(context.Context) (target, error) // starts the processes of one section
	counting *counting                                        // nil: instructions are not counted
}

func newTargets(s settings, self, dir string) *targets {
	return &targets{settings: s, self: self, dir: dir, running: map[string]target{}, special: map[string]func(context.Context) (target, error){}}
}

// stop ends the started processes in reverse order.
func (t *targets) stop() {
	for i := len(t.order) - 1; i >= 0; i-- {
		t.running[t.order[i]].process.Stop()
	}
	t.order, t.running = nil, map[string]target{}
}

// get returns the named process and starts it if necessary.
func (t *targets) get(ctx context.Context, name string) (target, error) {
	if found, ok := t.running[name]; ok {
		return found, nil
	}
	started, err := t.start(ctx, name)
	if err != nil {
		return target{}, err
	}
	t.running[name] = started
	t.order = append(t.order, name)
	return started, nil
}

func (t *targets) start(ctx context.Context, name string) (target, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if start := t.special[name]; start != nil {
		return start(ctx)
	}
	switch name {
	case modernUpstream:
		return t.role(ctx, name, roleUpstream, "--era", string(reference.Modern))
	case legacyUpstream:
		return t.role(ctx, name, roleUpstream, "--era", string(reference.Legacy))
	case dragomanStdio:
		return t.dragoman(ctx, name, t.echo(reference.Modern)...)
	case aloneStdio:
		return t.dragoman(ctx, name, t.echo(reference.Legacy)...)
	case mergeModern:
		return t.merged(ctx, name, reference.Modern, false)
	case mergeLegacy, mergeStdio:
		return t.merged(ctx, name, reference.Legacy, name == mergeStdio)
	}
	behind := modernUpstream
	if name == dragomanLegacy {
		behind = legacyUpstream
	}
	upstream, err := t.get(ctx, behind)
	if err != nil {
		return target{}, err
	}
	var found target
	switch name {
	case bareProxy:
		found, err = t.role(ctx, name, roleProxy, "--to", upstream.addr)
	case nginxProxy:
		found, err = t.nginx(ctx, upstream.addr)
	default:
		found, err = t.dragoman(ctx, name, upstream.url())
	}
	found.behind = upstream.process
	return found, err
}

func (t *target) url() string { return "http://" + t.addr + path }

// echo is the end of a Dragoman's command line that starts the echo server as a child.
func (t *targets) echo(era reference.Era) []string {
	return []string{"--", t.self, roleWord, roleEcho, "--era", string(era)}
}

// role starts this program as one of the reference processes.
func (t *targets) role(ctx context.Context, name string, args ...string) (target, error) {
	argv := append([]string{t.self, roleWord}, args...)
	if t.counting != nil && name == bareProxy {
		argv = t.counting.under(name, argv)
	}
	p, err := measure.Start(ctx, measure.Command{Name: name, Argv: argv, Log: t.log(name), Announces: true})
	if err != nil {
		return target{}, err
	}
	return target{addr: p.First, process: p}, nil
}

func (t *targets) nginx(ctx context.Context, upstream string) (target, error) {
	program, err := exec.LookPath(t.settings.nginx)
	if err != nil {
		return target{}, fmt.Errorf("nginx is %w", errAbsent)
	}
	listen, err := freeAddr()
	if err != nil {
		return target{}, err
	}
	dir := filepath.Join(t.dir, "nginx")
	conf, err := writeNginxConf(dir, listen, upstream)
	if err != nil {
		return target{}, err
	}
	return t.external(ctx, nginxProxy, listen, program, "-p", dir, "-c", conf, "-e", "stderr")
}

// dragoman starts a Dragoman in front of a URL or a command.
func (t *targets) dragoman(ctx context.Context, name string, upstream ...string) (target, error) {
	program, listen, err := t.program()
	if err != nil {
		return target{}, err
	}
	args := append([]string{program, "serve", "--listen", listen, "--admin", "off"}, upstream...)
	return t.external(ctx, name, listen, args...)
}

// configured starts a Dragoman with a configuration: its addresses, and lines. With admin it has an admin listener.
func (t *targets) configured(ctx context.Context, name string, admin bool, lines string) (target, error) {
	program, listen, err := t.program()
	if err != nil {
		return target{}, err
	}
	administered := "off"
	if admin {
		if administered, err = freeAddr(); err != nil {
			return target{}, err
		}
	}
	file := filepath.Join(t.dir, name+".toml")
	text := fmt.Sprintf("listen = %q\nadmin.listen = %q\n%s", listen, administered, lines)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return target{}, fmt.Errorf("bench: %w", err)
	}
	found, err := t.external(ctx, name, listen, program, "serve", "--config", file)
	if admin {
		found.admin = administered
	}
	return found, err
}

// program finds the Dragoman to measure, and a free address for it to listen on.
func (t *targets) program() (program, listen string, err error) {
	if program, err = exec.LookPath(t.settings.dragoman); err != nil {
		return "", "", fmt.Errorf("dragoman is %w", errAbsent)
	}
	listen, err = freeAddr()
	return program, listen, err
}

// external starts a program that listens on addr.
func (t *targets) external(ctx context.Context, name, addr string, argv ...string) (target, error) {
	if t.counting != nil {
		argv = t.counting.under(name, argv)
	}
	p, err := measure.Start(ctx, measure.Command{Name: name, Argv: argv, Log: t.log(name)})
	if err != nil {
		return target{}, err
	}
	return target{addr: addr, process: p}, nil
}

func (t *targets) log(name string) string { return filepath.Join(t.dir, name+".log") }

// await calls until the answer is correct: a listener may be open before the server behind it is known.
func (t *target) await(ctx context.Context, p drive.Plan) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	p.Timeout = startLimit
	err := drive.First(ctx, p, func(error) bool {
		if t.process.Failed() != nil {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(retryAfter):
			return true
		}
	})
	if ended := t.process.Failed(); ended != nil {
		return ended
	}
	if err != nil {
		return fmt.Errorf("bench: %s gave no correct answer within %v: %w", t.process.Name, startLimit, err)
	}
	return nil
}

// freeAddr finds a loopback port for a program that cannot choose one itself.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// revision is the protocol version of clients of a face.
func revision(f drive.Face) string {
	if f == drive.LegacyHTTP {
		return reference.LegacyVersion
	}
	return reference.ModernVersion
}

// plan describes how the clients of a face call a target. Requests and answers have size bytes.
func (t *target) plan(f drive.Face, size int, sse bool) drive.Plan {
	call := drive.EchoCall(f, size-max(0, len(t.tool)-len("echo")), size, sse)
	if t.tool != "" {
		call = at(call, t.tool)
	}
	if t.object {
		call.Text = `{"text":"` + call.Text + `"}`
	}
	return drive.Plan{
		Face: f, Revision: revision(f), Addr: t.addr, Host: t.addr, Path: path, Paths: t.paths, Header: t.header,
		Calls: []drive.Call{call}, Connections: 1,
	}
}
