// Package guardian starts child processes through a process of its own, the guardian, which ends them and everything they
// have started when we ask for it, and when we are gone.
//
// The guardian is our own binary, executed again, one for all children. It forks for us (so that it is the parent), is a
// subreaper on Linux (so that whatever loses its parent below it comes to it, be it in a session of its own), reaps
// whatever ends, and holds one end of a socket, whose other end is ours. When that ends, because we have closed it or are
// dead, it ends every process below it and then itself. A child's pipes go between us and the child; the guardian keeps no
// descriptor of them.
//
// Elsewhere on Unix it can do the same for a child's process group, not for those who left it. On Windows there is none.
package guardian

import (
	"errors"
	"os"
	"syscall"
)

// ErrUnavailable is why a child cannot be started here: there is no guardian and there will be none soon. Who gets it may
// start the child directly.
var ErrUnavailable = errors.New("guardian: not available")

// ErrClosed is why nothing can be started after Close.
var ErrClosed = errors.New("guardian: closed")

// ErrLost is why a start has failed whose guardian ended in the middle of it. A new attempt gets a new one.
var ErrLost = errors.New("guardian: the guardian process has ended")

// Options say how the guardian is run. The zero value is usable.
type Options struct {
	// Exe is the program to execute; it has this package in it. Empty means our own, except in a test binary: there no guardian
	// is available without Exe.
	Exe string
	// Note, if not nil, is told when no guardian can be started (once until one can be), and when a running one is lost.
	// It may be called from any goroutine and must not call back.
	Note func(err error)
}

// Spec is a child to be started. The files are borrowed until Start returns; they become blocking ones.
type Spec struct {
	Path                  string   // the file to execute, found already
	Argv, Env             []string // as execve(2) wants them; MarkKey is added to Env, whose keys must be different ones
	Dir                   string   // working directory; empty means ours
	Stdin, Stdout, Stderr *os.File
}

// MarkKey is the variable that the guardian puts into the environment of each child. Its value is different for each; by it
// descendants are told apart whose parents are gone. It does not begin like the variables that configure Dragoman, which
// may be such a child itself.
const MarkKey = "_DRAGOMAN_CHILD"

// Exit tells how a child ended.
type Exit struct {
	Code   int            // exit code; -1 if a signal ended it, or nobody knows
	Signal syscall.Signal // what ended it, SIGKILL for instance; 0 if it exited by itself
	Lost   bool           // the guardian has ended first, and the child with it; how is not known
}

// Guardian starts children through a guardian process, which it starts itself when the first child or Prestart wants it,
// and again when it has been lost. All methods may be called from any goroutine.
//
// One goroutine belongs to each guardian process; it ends with the process. Close waits for it.
type Guardian struct {
	opt  Options
	impl impl
}

// New makes the handle; no process is started yet.
func New(opt Options) *Guardian {
	if opt.Note == nil {
		opt.Note = func(error) {}
	}
	return &Guardian{opt: opt}
}

const (
	// title is the guardian's argv[0], by which a person recognises it in a list of processes.
	title = "dragoman-guardian"
	// callKey is the variable that makes us the guardian, besides title; its value is the part of the marks that only this
	// guardian uses.
	callKey = "_DRAGOMAN_GUARDIAN"
)
