package stdio

import (
	"context"
	"sync"
	"time"
)

const (
	// sweepFirst and sweepMost are the pauses between two looks at a group that is ending.
	sweepFirst = time.Millisecond
	sweepMost  = 50 * time.Millisecond
	// sweepKilled is how long we look on after SIGKILL: nobody can refuse it, but the kernel may take its time.
	sweepKilled = time.Second
)

// Stop ends the child and its process group in the order the specification gives ([2026-07-28 stdio §Shutdown]): what was
// written is flushed and stdin is closed; after StopGrace SIGTERM; after KillGrace SIGKILL, each to the whole group.
// What the child still says meanwhile is read and dropped, so that it is not kept from ending by a full pipe, and
// ReadLine returns io.EOF. Stop returns when the child has been reaped, nobody of its group is left and our ends of the
// pipes are closed, even if somebody who left the group still holds theirs. Any number of goroutines may call it, any
// number of times; each returns when that is reached. It takes at most StopGrace + KillGrace and what the system needs.
func (p *Process) Stop() {
	p.stopping.Do(p.end)
	<-p.gone
}

func (p *Process) end() {
	p.mu.Lock()
	p.stop = true
	p.mu.Unlock()
	var drops sync.WaitGroup
	drops.Go(p.out.discard)
	limit := time.Now().Add(p.stopGrace)
	p.closeStdin(limit)
	if !p.exitsWithin(time.Until(limit)) {
		p.signal(sigTerm)
		if !p.exitsWithin(p.killGrace) {
			p.signal(sigKill)
		}
	}
	<-p.gone
	p.out.Close()
	p.in.Close()
	drops.Wait()
}

// closeStdin lets what was accepted go out and then closes stdin, at the limit at the latest: a child that has not read
// its pipe by then will not notice its end either.
func (p *Process) closeStdin(limit time.Time) {
	p.writer.Shut(ErrStopped)
	ctx, cancel := context.WithDeadline(context.Background(), limit)
	defer cancel()
	// The error needs no answer: stdin is closed either way, and a child that has exited fails the Writer.
	_ = p.writer.Flush(ctx)
	p.in.Close()
}

func (p *Process) exitsWithin(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.done:
		return true
	case <-t.C:
		return false
	}
}

// signal sends to the group unless the child has exited: its id might be somebody else's by then.
func (p *Process) signal(s signalKind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	if s == sigTerm {
		p.termed = time.Now()
	}
	signalGroup(p.cmd.Process, s)
}

// attend waits for the child's exit, which may come at any time, and clears up behind it. It is the only place that
// reaps the child.
func (p *Process) attend() {
	defer close(p.gone)
	defer released()
	awaitExit(p.cmd)
	// On Linux the child is a zombie now and keeps its id, so the group is certainly its own. Whoever is left of it has
	// lost the one who spoke with us and is asked to go.
	p.mu.Lock()
	p.ended = true
	if p.termed.IsZero() {
		p.termed = time.Now()
		signalGroup(p.cmd.Process, sigTerm)
	}
	stopped := p.stop
	p.mu.Unlock()
	_ = p.cmd.Wait() // says what ProcessState says
	p.errs.finish()
	p.out.finish()
	p.awaitPump()
	p.exit = exitError(p.name, p.cmd.ProcessState, time.Since(p.started))
	p.exit.Stopped = stopped
	p.exit.StderrTail = p.tail.lines()
	p.writer.Fail(p.exit)
	p.in.Close()
	close(p.done)
	p.sweep()
}

// awaitPump waits for the last lines of stderr. The pump ends by itself unless the callback hangs.
func (p *Process) awaitPump() {
	t := time.NewTimer(pumpGrace)
	defer t.Stop()
	select {
	case <-p.pumped:
	case <-t.C:
	}
}

// sweep sees to it that nobody of the group outlives the child. They have been sent SIGTERM; who is there after
// KillGrace gets SIGKILL. The id of a group stays taken as long as somebody is in it, and freed ids are given out again
// only after all others, so between two looks it cannot become a stranger's.
func (p *Process) sweep() {
	limit := p.termed.Add(p.killGrace)
	killed := false
	for pause := sweepFirst; groupAlive(p.pid, pause > sweepMost/4); pause = min(2*pause, sweepMost) {
		left := time.Until(limit)
		switch {
		case left > 0:
			time.Sleep(min(pause, left))
		case killed:
			return
		default:
			signalGroupID(p.pid, sigKill)
			killed = true
			limit, pause = time.Now().Add(sweepKilled), sweepFirst/2
		}
	}
}
