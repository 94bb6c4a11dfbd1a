// Package reaper starts child processes through a second process, the reaper, which ends them and all of their descendants when
// we ask for it, and when we are gone, however we ended.
//
// The reaper is our own binary, started once for all children with the hidden command [Command]. It forks for us and so is the
// parent of every child. On Linux it is a subreaper (prctl(2)): a descendant whose parent ends becomes its child, in whatever
// session it is. It reaps all that ends. A socket connects the two processes. When our end of it closes, because we close it or
// die, the reaper ends every process below it and then itself. A child's pipes go directly between us and the child; the reaper
// keeps no descriptor of them.
//
// On Linux the reaper has a parent between us and it, the keeper, which ends what is left should the reaper be killed, alone or
// together with us: see package keeper.
//
// On other Unix systems the reaper does the same for a child's process group, without the processes that have left the group.
// Windows has no reaper.
package reaper

import (
	"errors"
	"os"
	"syscall"
)

// Command is the command-line argument that makes a process the reaper: see Called and Main.
const Command = "reaper"

// markKey is the environment variable that carries a reaper's part of the marks, and confirms Command.
const markKey = "_DRAGOMAN_REAPER"

// MarkKey is the environment variable that the reaper sets in each child. Its value differs for each child and identifies
// descendants whose parents are gone. It has no DRAGOMAN_ prefix because such variables configure Dragoman, and the child may
// be one.
const MarkKey = "_DRAGOMAN_CHILD"

// ErrUnavailable is returned by Start if there is no reaper and will be none soon. The caller may start the child directly.
var ErrUnavailable = errors.New("reaper: not available")

// ErrClosed is returned by Start after Close.
var ErrClosed = errors.New("reaper: closed")

// ErrLost is returned by Start if the reaper process ended before it answered. The next Start gets a new one.
var ErrLost = errors.New("reaper: the reaper process has ended")

// ErrUnkept reports that the keeper of a reaper process has ended (Linux). Options.Note gets it.
var ErrUnkept = errors.New("reaper: the keeper process has ended, so that a kill of both others may leave children; the next child gets new ones")

// Options configure a Reaper. The zero value is usable.
type Options struct {
	// Exe is the program to run as the reaper: its [Command] calls Main. Empty means our own executable. In a test binary no
	// reaper is available without Exe, because running it again would run the tests again.
	Exe string
	// Note, if not nil, is called when no reaper can be started (once until one can be), and when a running one, or its keeper, is lost.
	// It is called from any goroutine and must neither block nor call back.
	Note func(err error)
}

// Spec describes a child to start. The files are borrowed until Start returns; they become blocking.
type Spec struct {
	Path                  string   // file to execute, already looked up
	Argv, Env             []string // as execve(2) takes them; the reaper adds MarkKey to Env
	Dir                   string   // working directory; empty means ours
	Stdin, Stdout, Stderr *os.File
}

// Exit tells how a child ended.
type Exit struct {
	Code   int            // exit code; -1 if a signal ended the child or Lost is set
	Signal syscall.Signal // signal that ended the child; 0 if it exited by itself
	Lost   bool           // the reaper ended first and took the child along; how the child ended is not known
}

// Reaper starts children through a reaper process. It starts that process at the first Start or Prestart, and again after it
// was lost. All methods may be called from any goroutine.
//
// Each reaper process has one goroutine here, which ends with the process. Close waits for it.
type Reaper struct {
	opt  Options
	impl impl
}

// New returns a Reaper. It starts no process yet.
func New(opt Options) *Reaper {
	if opt.Note == nil {
		opt.Note = func(error) {}
	}
	return &Reaper{opt: opt}
}

// Called reports whether this process, with these arguments (os.Args), was started to be a reaper. Its main function, or TestMain,
// then calls Main and nothing else.
func Called(args []string) bool {
	return len(args) == 2 && args[1] == Command && os.Getenv(markKey) != ""
}
