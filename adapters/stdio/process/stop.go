package process

import (
	"context"
	"sync"
	"time"
)

// Stop ends the child and its descendants in the specification's order ([2026-07-28 stdio §Shutdown]): it flushes
// accepted lines and closes stdin; after StopGrace it sends SIGTERM, after KillGrace SIGKILL, each to all of them.
// Meanwhile it reads and drops the child's output, so that a full pipe cannot block the exit, and ReadLine returns
// io.EOF. Stop returns when the child has been reaped, no descendant is left and the proxy's ends of the pipes are
// closed, even if, without a reaper, a process that left the group still holds the other ends. Any number of goroutines
// may call it, any number of times; each call returns when that is reached. It takes at most StopGrace + KillGrace and
// what the system needs.
func (p *Process) Stop() {
	p.stopping.Do(p.end)
	<-p.gone
}

func (p *Process) end() {
	p.mu.Lock()
	p.stop = true
	p.mu.Unlock()
	var drops sync.WaitGroup
	p.out.Discard() // before the child can exit, so that a partial line is not returned
	drops.Go(p.out.Drain)
	limit := time.Now().Add(p.stopGrace)
	p.closeStdin(limit)
	if !closedWithin(p.done, time.Until(limit)) {
		p.tree.signal(sigTerm)
		if !closedWithin(p.done, p.killGrace) {
			p.tree.signal(sigKill)
		}
	}
	<-p.gone
	_, _ = p.out.Close(), p.in.Close() // fails only if they are closed already
	drops.Wait()
}

// closeStdin flushes accepted lines and closes stdin, at limit at the latest: a child that has not read its pipe by then
// does not notice its end either.
func (p *Process) closeStdin(limit time.Time) {
	p.writer.Shut(ErrStopped)
	ctx, cancel := context.WithDeadline(context.Background(), limit)
	defer cancel()
	// The error is ignored: stdin is closed in any case, and a child that has exited fails the Writer.
	_ = p.writer.Flush(ctx)
	_ = p.in.Close()
}

// attend waits for the child's exit, which may come at any time, and cleans up.
func (p *Process) attend() {
	defer close(p.gone)
	how := p.tree.wait()
	p.mu.Lock()
	stopped := p.stop
	p.mu.Unlock()
	p.errs.Finish()
	p.out.Finish()
	closedWithin(p.pumped, pumpGrace) // the last lines of stderr
	p.exit = &ExitError{Command: p.name, Code: how.code, Signal: how.signal, Lost: how.lost, Uptime: time.Since(p.started),
		Stopped: stopped, StderrTail: p.tail.lines()}
	p.writer.Fail(p.exit)
	_ = p.in.Close() // fails only if it is closed already
	close(p.done)
	p.tree.sweep(p.killGrace)
}

// closedWithin waits until c is closed, at most d, and reports whether it is.
func closedWithin(c <-chan struct{}, d time.Duration) bool {
	select {
	case <-c:
		return true
	default:
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	}
}

// emptyBy waits until no process is left, at most until limit, and reports whether that is so. Nothing cancels it: Stop
// waits for it. It polls, because no event is reliable: Unix reports no empty process group, whose members are not our
// children, and Windows does not guarantee the messages of a job (JOBOBJECT_ASSOCIATE_COMPLETION_PORT). A thorough check
// costs more; it is made when the wait takes long.
func emptyBy(limit time.Time, empty func(thorough bool) bool) bool {
	for pause := sweepFirst; !empty(pause > sweepMost/4); pause = min(2*pause, sweepMost) {
		left := time.Until(limit)
		if left <= 0 {
			return false
		}
		<-time.After(min(pause, left))
	}
	return true
}
