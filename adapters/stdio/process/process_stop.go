package process

import (
	"context"
	"sync"
	"time"
)

// Stop ends the child and what descends from it in the order the specification gives ([2026-07-28 stdio §Shutdown]): what
// was written is flushed and stdin is closed; after StopGrace SIGTERM; after KillGrace SIGKILL, each to all of them. What the
// child still says meanwhile is read and dropped, so that it is not kept from ending by a full pipe, and ReadLine returns
// io.EOF. Stop returns when the child has been reaped, nobody is left and our ends of the pipes are closed, even if, without a
// reaper, somebody who left the child's process group still holds theirs. Any number of goroutines may call it, any number
// of times; each returns when that is reached. It takes at most StopGrace + KillGrace and what the system needs.
func (p *Process) Stop() {
	p.stopping.Do(p.end)
	<-p.gone
}

func (p *Process) end() {
	p.mu.Lock()
	p.stop = true
	p.mu.Unlock()
	var drops sync.WaitGroup
	p.out.Discard() // before the child can exit: what it has written in part is no line
	drops.Go(p.out.Drain)
	limit := time.Now().Add(p.stopGrace)
	p.closeStdin(limit)
	if !p.exitsWithin(time.Until(limit)) {
		p.kin.signal(sigTerm)
		if !p.exitsWithin(p.killGrace) {
			p.kin.signal(sigKill)
		}
	}
	<-p.gone
	_, _ = p.out.Close(), p.in.Close() // fail only if they are closed already
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
	_ = p.in.Close()
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

// attend waits for the child's exit, which may come at any time, and clears up behind it.
func (p *Process) attend() {
	defer close(p.gone)
	how := p.kin.wait()
	p.mu.Lock()
	stopped := p.stop
	p.mu.Unlock()
	p.errs.Finish()
	p.out.Finish()
	p.awaitPump()
	p.exit = &ExitError{Command: p.name, Code: how.code, Signal: how.signal, Lost: how.lost, Uptime: time.Since(p.started),
		Stopped: stopped, StderrTail: p.tail.lines()}
	p.writer.Fail(p.exit)
	_ = p.in.Close() // fails only if it is closed already
	close(p.done)
	p.kin.sweep(p.killGrace)
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
