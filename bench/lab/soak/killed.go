//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"dragoman/bench/lab/soak/child"
	"dragoman/bench/lab/soak/client"
	"dragoman/bench/lab/soak/procs"
)

const (
	everything = "@modelcontextprotocol/server-everything"
	longTool   = "trigger-long-running-operation"
	beginLimit = 2 * time.Minute // npx may have to download
	perServer  = 2               // sessions at each server when its Dragoman is killed
	busyTime   = 4 * time.Second
)

// killAll kills Dragomans with SIGKILL, with a few calls in flight and under load, alone and together with their reapers, and looks
// for surviving processes.
func (r *soak) killAll(ctx context.Context, rep *report) {
	for round := range r.settings.rounds {
		for _, k := range []struct {
			name string
			kill func(context.Context, *scenario, *killed)
		}{{"calls", r.killCalls}, {"load", r.killBusy}, {"reaper", r.killBusy}} {
			res := &killed{Name: fmt.Sprintf("SIGKILL, %s, %d", k.name, round+1), both: k.name == "reaper"}
			rep.Kills = append(rep.Kills, res)
			s := r.doomed(fmt.Sprintf("kill-%s-%d", k.name, round+1), k.name == "calls", res)
			fmt.Fprintf(r.errs, "soak: %s: %d servers\n", res.Name, len(s.bad))
			k.kill(ctx, s, res)
			if ctx.Err() != nil {
				return
			}
		}
	}
}

// doomed is the scenario of a Dragoman that will be killed.
func (r *soak) doomed(name string, withNpx bool, res *killed) *scenario {
	s := &scenario{name: name, requestTime: "2m", good: []server{{name: "good", role: role(!modern, child.Good)}}}
	for _, k := range []child.Kind{child.OtherSession, child.Daemon, child.Fork, child.Stubborn} {
		s.bad = append(s.bad, server{name: string(k), role: role(!modern, k)})
	}
	script := fmt.Sprintf(`sleep 1000 & cat | '%s' %s legacy/good | cat`, r.self, child.Word)
	s.bad = append(s.bad, server{name: "pipeline", role: role(!modern, child.Good), command: []string{"sh", "-c", script}})
	if !withNpx {
		return s
	}
	if npx, err := r.npx(); err != nil {
		res.Notes = append(res.Notes, "npx is left out: "+err.Error())
	} else {
		s.bad = append(s.bad, npx)
	}
	return s
}

// npx is the server that conformance pins, started as users start it.
func (r *soak) npx() (server, error) {
	if r.settings.npx == "" {
		return server{}, errors.New("--npx is empty")
	}
	if _, err := exec.LookPath("npx"); err != nil {
		return server{}, err
	}
	dir, err := filepath.Abs(r.settings.npx)
	if err != nil {
		return server{}, err
	}
	raw, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		return server{}, err
	}
	var pins struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	if err = json.Unmarshal(raw, &pins); err != nil {
		return server{}, err
	}
	pin := pins.Dependencies[everything]
	if pin == "" {
		return server{}, fmt.Errorf("%s/package.json does not pin %s", dir, everything)
	}
	return server{name: "npx", role: role(!modern, child.Good), command: []string{"npx", "-y", everything + "@" + pin},
		more: fmt.Sprintf("cwd = %q\nprobe_timeout = \"90s\"\nstart_timeout = \"90s\"\nera = \"legacy\"", dir)}, nil
}

// begin launches a Dragoman and waits until it listens. It returns nil if that fails, and res says why.
func (r *soak) begin(ctx context.Context, s *scenario, res *killed) *dragoman {
	d, err := r.launch(s)
	if err == nil {
		err = d.ready(ctx)
	}
	if err != nil {
		res.fail(err.Error())
		return nil
	}
	return d
}

// killCalls kills a Dragoman with calls in flight at every server.
func (r *soak) killCalls(ctx context.Context, s *scenario, res *killed) {
	d := r.begin(ctx, s, res)
	if d == nil {
		return
	}
	var mu sync.Mutex
	var open []func()
	var group sync.WaitGroup
	for _, up := range s.servers() {
		for range perServer {
			group.Go(func() {
				leave, err := openCall(ctx, d, &up)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					res.fail(fmt.Sprintf("%s: %v", up.name, err))
					return
				}
				res.Calls++
				open = append(open, leave)
			})
		}
	}
	group.Wait()
	r.kill(ctx, d, res)
	for _, leave := range open {
		leave()
	}
}

// openCall opens a session and begins a call in it.
func openCall(ctx context.Context, d *dragoman, up *server) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, beginLimit)
	defer cancel()
	s, err := client.OpenLegacy(ctx, d.place(up.name))
	if err != nil {
		return nil, err
	}
	call := client.Call{Arguments: child.Arguments{DelayMS: 60_000, Progress: 1}, Progress: true}
	if up.name == "npx" {
		call = client.Call{Tool: longTool, Arguments: map[string]int{"duration": 60, "steps": 60}, Progress: true}
	}
	id, err := s.Begin(call)
	if err == nil {
		err = s.End(id, call, func(*client.Message) error { return errInFlight })
	}
	if !errors.Is(err, errInFlight) {
		s.Leave()
		return nil, fmt.Errorf("soak: a call that makes progress was expected: %w", errors.Join(err, client.ErrWrong))
	}
	return s.Leave, nil
}

var errInFlight = errors.New("soak: the call is in flight")

// killBusy kills a Dragoman under load.
func (r *soak) killBusy(ctx context.Context, s *scenario, res *killed) {
	d := r.begin(ctx, s, res)
	if d == nil {
		return
	}
	var group sync.WaitGroup
	t := &tally{}
	group.Go(func() { r.load(ctx, d, s, t, killPhase, busyTime) })
	pause(ctx, busyTime-time.Duration(rand.IntN(1000))*time.Millisecond) //nolint:gosec // any moment will do
	counts, _ := t.snapshot()
	res.Calls = counts.Calls
	r.kill(ctx, d, res)
	group.Wait()
}

// reaperOf returns the process that starts a Dragoman's children. If there is none, res says so.
func reaperOf(d *dragoman, res *killed) int {
	all, err := d.family()
	for _, p := range all {
		if p.Name == "reaper" {
			return p.PID
		}
	}
	res.fail(errors.Join(errors.New("soak: there is no reaper"), err).Error())
	return d.pid
}

// kill kills the Dragoman and finds the surviving processes.
func (r *soak) kill(ctx context.Context, d *dragoman, res *killed) {
	strays := map[procs.ID]bool{}
	before, err := r.keeper.Strays()
	if err != nil {
		res.fail(err.Error())
	}
	for _, p := range before {
		strays[p.ID()] = true
	}
	known := r.ids(d)
	res.Descendants = len(known)
	helper := func(syscall.Signal) {} // signals the reaper, if it is to end too
	if res.both {
		pid := reaperOf(d, res)
		helper = func(sig syscall.Signal) {
			if err := syscall.Kill(pid, sig); err != nil {
				res.fail(err.Error())
			}
		}
	}
	helper(syscall.SIGSTOP) // it must not see Dragoman's end
	d.signal(syscall.SIGKILL)
	helper(syscall.SIGKILL)
	began := time.Now()
	left := r.survivors(ctx, d, known)
	res.Took = time.Since(began).Round(time.Millisecond).String()
	seen := map[procs.ID]bool{}
	for _, p := range left {
		seen[p.ID()] = true
	}
	after, err := r.keeper.Strays()
	if err != nil {
		res.fail(err.Error())
	}
	for _, p := range after { // processes that changed their environment and were started too late to be known
		if !strays[p.ID()] && !seen[p.ID()] && time.Since(began) >= survival {
			left = append(left, p)
		}
	}
	for _, p := range left {
		res.fail(fmt.Sprintf("%v after SIGKILL there is still %s", survival, p))
		if err := procs.Kill(p.ID()); err != nil {
			res.fail(err.Error())
		}
	}
}
