//go:build unix

package reaper

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"flag"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// ahead has what Prelaunch has spawned, nil if that failed, and is closed then. It is nil if Prelaunch was not called.
var ahead chan *connection

// Prelaunch starts a reaper process before there is a Reaper, so that its initialization overlaps with the program's. The first
// Reaper that needs a process takes it. If none does, it ends with the program. Prelaunch is called once, before any other use of
// the package.
func Prelaunch() {
	ahead = make(chan *connection, 1)
	go func() { // ends at once
		defer close(ahead)
		if c, err := spawn(new(Options)); err == nil {
			ahead <- c
		}
	}()
}

// launch starts a reaper process, which ends when the connection to it is closed, also by our death.
func launch(r *Reaper) (c *connection, err error) {
	if ahead != nil {
		c = <-ahead
	}
	if c == nil {
		if c, err = spawn(&r.opt); err != nil {
			return nil, err
		}
	}
	c.reaper = r
	go c.serve()
	return c, nil
}

// spawn starts a reaper process whose connection is not served yet.
func spawn(opt *Options) (*connection, error) {
	exe, err := opt.exe()
	if err != nil {
		return nil, err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	mark := hex.EncodeToString(random)
	cmd := &exec.Cmd{Path: exe, Args: []string{"dragoman", Command}, Env: environment(mark), ExtraFiles: []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	if err := cmd.Start(); err != nil {
		_ = ours.Close()
		return nil, err
	}
	return &connection{mark: mark, cmd: cmd, socket: ours, children: map[uint64]*Child{},
		slots: make(chan struct{}, maxStarts), ready: make(chan struct{}), done: make(chan struct{})}, nil
}

// exe returns the program to run, or an error if it would not become a reaper.
func (o *Options) exe() (string, error) {
	switch {
	case os.Getenv(markKey) != "":
		return "", errors.New("reaper: this process was started as a reaper and does not call reaper.Main")
	case o.Exe != "":
		return o.Exe, nil
	case flag.Lookup("test.v") != nil:
		return "", errors.New("reaper: a test binary has to be named in Options.Exe")
	case runtime.GOOS == "linux":
		return "/proc/self/exe", nil // stays right after the file was replaced
	}
	return os.Executable()
}

// environment is that of a reaper process.
func environment(mark string) []string {
	env := []string{
		markKey + "=" + mark,
		// Each fork that a slow file system holds up keeps a processor of the runtime.
		"GOMAXPROCS=" + strconv.Itoa(forkers+2),
		"GOGC=off", // see server.collect
	}
	// MarkKey is set if we are a child of another Dragoman: its reaper has to find ours too. The others are for debugging.
	for _, key := range []string{MarkKey, "GODEBUG", "GORACE"} {
		if value, ok := os.LookupEnv(key); ok {
			env = append(env, key+"="+value)
		}
	}
	return env
}

// socketPair returns the two ends of the socket, neither of which a child inherits by itself.
func socketPair() (ours *net.UnixConn, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "reaper")
	if ours, err = socketOf(fds[0]); err != nil {
		_ = theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}
