//go:build unix

package guardian

import (
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
)

// launch starts a guardian process, or takes the one that was started before main.
func launch(g *Guardian) (*link, error) {
	exe, err := g.opt.command()
	if err != nil {
		return nil, err
	}
	var n *newcomer
	if g.opt.Exe == "" {
		n = taken()
	}
	if n == nil {
		if n, err = embark(exe); err != nil {
			return nil, err
		}
	}
	l := &link{guardian: g, mark: n.mark, proc: n.proc, conn: n.conn, children: map[uint64]*Child{},
		places:  make(chan struct{}, startsMost),
		greeted: make(chan struct{}), lost: make(chan struct{}), done: make(chan struct{})}
	go l.serve()
	return l, nil
}

// newcomer is a guardian process to which nobody listens yet. It ends when conn is closed, as it is when we end.
type newcomer struct {
	mark string
	proc *os.Process
	conn *os.File
}

// embark executes exe as a guardian.
func embark(exe string) (*newcomer, error) {
	mark, err := secret()
	if err != nil {
		return nil, err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		_ = ours.Close()
		return nil, err
	}
	defer null.Close()
	// A runtime with room for forks that are held up by a slow file system, each of which keeps a processor.
	env := []string{callKey + "=" + mark, "GOMAXPROCS=" + strconv.Itoa(forkers+2), "GOGC=" + strconv.Itoa(lazyGC)}
	// MarkKey is there if we are somebody's child ourselves: then the guardian is it too. The others are for finding faults.
	for _, key := range []string{MarkKey, "GODEBUG", "GORACE"} {
		if value, ok := os.LookupEnv(key); ok {
			env = append(env, key+"="+value)
		}
	}
	proc, err := os.StartProcess(exe, []string{title}, &os.ProcAttr{
		Env: env, Files: []*os.File{null, null, null, theirs}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_ = ours.Close()
		return nil, err
	}
	return &newcomer{mark, proc, ours}, nil
}

// ahead is where the guardian process comes from that is started before main; nil if none is, or if it has been taken.
var ahead atomic.Pointer[chan *newcomer]

// goAhead starts a guardian process beside the initialization of all other packages, which takes longer, where the command line
// tells that there will be a child. Whoever launches one takes it; nobody else needs to know.
func goAhead() {
	exe, err := new(Options).command()
	if err != nil || !childFollows(os.Args) {
		return
	}
	ch := make(chan *newcomer, 1)
	ahead.Store(&ch)
	go func() {
		n, _ := embark(exe) // launch tries again, and reports
		ch <- n
	}()
}

// taken gives the process that goAhead has started, once; nil if there is none.
func taken() *newcomer {
	if ch := ahead.Swap(nil); ch != nil {
		return <-*ch
	}
	return nil
}

// childFollows tells whether a command line is `dragoman serve` or `dragoman stdio` with a child's behind it. It may be wrong: a
// guardian process that nobody takes ends with us.
func childFollows(args []string) bool {
	if len(args) < 3 || args[1] != "serve" && args[1] != "stdio" {
		return false
	}
	for _, arg := range args[2:] {
		if arg == "--" {
			return true
		}
	}
	return false
}
