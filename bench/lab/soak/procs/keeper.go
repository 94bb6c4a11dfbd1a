//go:build linux

package procs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Keeper adopts and reaps orphans among the descendants of this process (PR_SET_CHILD_SUBREAPER), as init does otherwise. So no process can
// escape from a run, not even by leaving its group and session and changing its environment.
type Keeper struct {
	mu      sync.Mutex
	own     map[int]bool // started by Start and not yet waited for: the caller of Start reaps them
	orphans int
	stop    chan struct{}
	done    chan struct{}
}

// again is how often the keeper looks for ended orphans even without a signal: signals are merged.
const again = 200 * time.Millisecond

// Keep makes this process the keeper. There may be only one. Close ends it.
func Keep() (*Keeper, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("procs: become the reaper of orphans: %w", err)
	}
	k := &Keeper{own: map[int]bool{}, stop: make(chan struct{}), done: make(chan struct{})}
	go k.run() // until Close
	return k, nil
}

// Close ends the keeper. Orphans that are still alive are left alone; see KillAll.
func (k *Keeper) Close() {
	close(k.stop)
	<-k.done
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) // cannot fail if Keep succeeded
}

// Start starts a command; call Wait to wait for its end. If the command has a parent death signal, call Start from a goroutine that is
// locked to a thread which lasts.
func (k *Keeper) Start(cmd *exec.Cmd) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("procs: %w", err)
	}
	k.own[cmd.Process.Pid] = true
	return nil
}

// Wait is cmd.Wait for a command of Start.
func (k *Keeper) Wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.own, cmd.Process.Pid)
	return err
}

// Orphans is how many orphans were adopted and reaped.
func (k *Keeper) Orphans() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.orphans
}

// Strays returns orphans and their descendants: the processes below this one, zombies included, that descend from no command of Start.
func (k *Keeper) Strays() ([]Process, error) {
	t, err := Read()
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var strays []Process
	for _, p := range t.Below(os.Getpid()) {
		if top := t.topBelow(p, os.Getpid()); !k.own[top] {
			strays = append(strays, p)
		}
	}
	return strays, nil
}

// topBelow returns the child of pid from which p descends.
func (t Table) topBelow(p Process, pid int) int {
	for steps := 0; p.Parent != pid && steps < len(t); steps++ {
		p = t[p.Parent]
	}
	return p.PID
}

func (k *Keeper) run() {
	defer close(k.done)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	tick := time.NewTicker(again)
	defer tick.Stop()
	for {
		select {
		case <-ended:
		case <-tick.C:
		case <-k.stop:
			return
		}
		k.reap()
	}
}

// reap reaps the orphans that have ended.
func (k *Keeper) reap() {
	t, err := Read()
	if err != nil {
		return // tried again later
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range t {
		if p.Parent == os.Getpid() && p.Zombie() && !k.own[p.PID] {
			if pid, err := unix.Wait4(p.PID, nil, unix.WNOHANG, nil); err == nil && pid == p.PID {
				k.orphans++
			}
		}
	}
}

// Kill kills a process, unless it has ended or its PID was reused.
func Kill(id ID) error {
	fd, err := unix.PidfdOpen(id.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("procs: %w", err)
	}
	defer unix.Close(fd)
	raw, err := os.ReadFile(file(id.PID, "stat"))
	if err != nil {
		return nil // it has ended
	}
	if p, err := parseStat(raw); err != nil || p.ID() != id {
		return err
	}
	if err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("procs: %w", err)
	}
	return nil
}
