package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"time"

	"dragoman/bench/load"
	"dragoman/bench/measure"
	"dragoman/bench/reference"
)

const (
	startLimit = 20 * time.Second // from the start of a process to its first right answer
	retryAfter = 20 * time.Millisecond
	path       = "/mcp"
)

// errAbsent says that a program is not on this machine: its cells are left out.
var errAbsent = errors.New("not on this machine")

// target is a running process under test.
type target struct {
	addr    string
	process *measure.Process
}

// targets starts processes as cells ask for them and stops them all at the end.
// It is for one goroutine, locked to its thread (see measure.Start).
type targets struct {
	settings settings
	self     string // this program, for the roles
	dir      string // for logs and configuration; somebody else removes it
	running  map[string]target
	order    []string
	counting *counting // nil: nobody counts
}

// stop ends what was started, the last first.
func (t *targets) stop() {
	for i := len(t.order) - 1; i >= 0; i-- {
		t.running[t.order[i]].process.Stop()
	}
}

// get returns the named process, started if need be.
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
	switch name {
	case modernUpstream:
		return t.role(ctx, name, roleUpstream, "--era", string(reference.Modern))
	case legacyUpstream:
		return t.role(ctx, name, roleUpstream, "--era", string(reference.Legacy))
	case dragomanStdio:
		return t.dragoman(ctx, name, "--", t.self, roleWord, roleEcho, "--era", string(reference.Modern))
	}
	behind := modernUpstream
	if name == dragomanLegacy {
		behind = legacyUpstream
	}
	upstream, err := t.get(ctx, behind)
	if err != nil {
		return target{}, err
	}
	switch name {
	case bareProxy:
		return t.role(ctx, name, roleProxy, "--to", upstream.addr)
	case nginxProxy:
		return t.nginx(ctx, upstream.addr)
	default:
		return t.dragoman(ctx, name, "http://"+upstream.addr+path)
	}
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
	program, err := exec.LookPath(t.settings.dragoman)
	if err != nil {
		return target{}, fmt.Errorf("dragoman is %w", errAbsent)
	}
	listen, err := freeAddr()
	if err != nil {
		return target{}, err
	}
	args := append([]string{program, "serve", "--listen", listen, "--admin", "off"}, upstream...)
	return t.external(ctx, name, listen, args...)
}

// external starts a program that listens where it was told to.
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

// await calls until the answer is right: a listener may be open before what is
// behind it has been found.
func (t *target) await(ctx context.Context, p load.Plan) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := load.Once(ctx, p)
		if err == nil {
			return nil
		}
		if ended := t.process.Failed(); ended != nil {
			return ended
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("bench: %s gave no right answer within %v: %w", t.process.Name, startLimit, err)
		case <-time.After(retryAfter):
		}
	}
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
