package process

import (
	"os"
	"os/exec"
	"syscall"
	"time"
)

const (
	// sweepFirst and sweepMost are the shortest and longest pauses between two checks of a group that is ending.
	sweepFirst = time.Millisecond
	sweepMost  = 50 * time.Millisecond
	// sweepKilled is how long sweep waits after SIGKILL, for the kernel to end the processes.
	sweepKilled = time.Second
)

// tree is a running child and its known descendants.
type tree interface {
	// wait returns when the child has exited and been reaped. It asks the remaining descendants to end, because the
	// process that talked to the proxy is gone. It is called once.
	wait() outcome
	// signal signals the child and its descendants: SIGTERM or SIGKILL. After the child's exit it does nothing.
	signal(s syscall.Signal)
	// sweep is called after wait and returns when no descendant is left. Those that remain after grace, counted from when
	// they were asked to end, get SIGKILL.
	sweep(grace time.Duration)
}

// outcome is how a child ended.
type outcome struct {
	code   int    // -1 if a signal ended it, or if unknown
	signal string // name of that signal
	lost   bool   // the reaper ended first
}

// directCommand returns a child that is started without a reaper.
func directCommand(c Command, path string, std [3]*os.File) *exec.Cmd {
	// Env is not nil, which would mean the proxy's own environment.
	return &exec.Cmd{Path: path, Args: c.Argv, Env: append([]string{}, c.Env...), Dir: c.Dir, SysProcAttr: sysProcAttr(),
		Stdin: std[0], Stdout: std[1], Stderr: std[2]}
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
