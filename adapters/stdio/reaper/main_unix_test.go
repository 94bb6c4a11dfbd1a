//go:build unix

package reaper

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const (
	roleKey  = "REAPER_TEST_ROLE"  // makes the test binary one of the processes below
	tokenKey = "REAPER_TEST_TOKEN" // identifies the processes of a test
	pidsKey  = "REAPER_TEST_PIDS"  // the file into which children write their process ids
)

func TestMain(m *testing.M) {
	if Called(os.Args) {
		os.Exit(Main())
	}
	if role := os.Getenv(roleKey); role != "" {
		time.AfterFunc(time.Minute, func() { os.Exit(99) }) // in case a test fails
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(watched{m})
}

// watched runs the tests, and also fails if the race detector finds a race in a reaper.
type watched struct{ *testing.M }

func (w watched) Run() int {
	dir, err := os.MkdirTemp("", "reaper")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0 log_path="+dir+"/race") // fails for no such name
	code := w.M.Run()
	reports, _ := filepath.Glob(dir + "/race*")
	for _, name := range reports {
		text, _ := os.ReadFile(name)
		fmt.Fprintf(os.Stderr, "%s\n", text)
		code = 1
	}
	return code
}

// play runs the roles of test processes that are no shell scripts.
func play(role string) int {
	name, arg, _ := strings.Cut(role, ":")
	switch name {
	case "parent": // starts children of a script and waits to be killed
		return playParent(arg)
	case "first": // the same as the first process of a container
		return playFirst()
	case "swarm": // starts, in sessions of their own, as many as it can, for a while
		until := time.Now().Add(20 * time.Second)
		for n := 0; time.Now().Before(until) && n < 3000; n++ {
			cmd := exec.Command("sleep", "50")
			cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // without a mark
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if n%2 == 0 {
				cmd.Env = append(cmd.Environ(), tokenKey+"="+os.Getenv(tokenKey), MarkKey+"="+os.Getenv(MarkKey))
			}
			if err := cmd.Start(); err != nil {
				return 1
			}
			if n == 20 {
				note()
			}
		}
		time.Sleep(50 * time.Second) // the process does nothing
	}
	return 98
}

// note writes our process id into the test's file.
func note() {
	f, err := os.OpenFile(os.Getenv(pidsKey), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		os.Exit(97)
	}
	fmt.Fprintln(f, os.Getpid())
	_ = f.Close()
}

// playParent stands for Dragoman: it starts the script in a few children and prints a line when all expected processes are running.
func playParent(arg string) int {
	count, script, _ := strings.Cut(arg, ":")
	g := New(Options{Exe: self(), Note: func(err error) { fmt.Fprintln(os.Stderr, err) }})
	for range 3 {
		if _, _, err := run(context.Background(), g, os.Environ(), "sh", "-c", script); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	want, _ := strconv.Atoi(count)
	for limit := time.Now().Add(20 * time.Second); len(recorded(os.Getenv(pidsKey))) < 3*want; {
		if time.Now().After(limit) {
			fmt.Println("only", recorded(os.Getenv(pidsKey)))
			return 1
		}
		time.Sleep(time.Millisecond)
	}
	fmt.Println("ready")
	time.Sleep(time.Hour) // the process does nothing
	return 0
}

// playFirst runs in a process namespace of its own and prints which processes are left after a child with a daemon has ended.
func playFirst() int {
	g := New(Options{Exe: self(), Note: func(err error) { fmt.Println(err) }})
	c, _, err := run(context.Background(), g, os.Environ(), "sh", "-c", `(setsid sleep 50 &) ; (setsid sh -c 'exit 3' &)`)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	<-c.Gone()
	g.Close()
	fmt.Println("first", os.Getpid())
	procs, _ := os.ReadDir("/proc")
	for _, p := range procs {
		if pid, err := strconv.Atoi(p.Name()); err == nil && pid != os.Getpid() {
			stat, _ := os.ReadFile("/proc/" + p.Name() + "/stat")
			fmt.Println("left", string(stat))
		}
	}
	fmt.Println("end")
	return 0
}

func self() string {
	exe, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return exe
}

// run starts a command with a reaper. Its stdout and stderr are sent to the channel line by line; its stdin is a pipe that is closed with
// this process.
func run(ctx context.Context, g *Reaper, env []string, argv ...string) (*Child, <-chan string, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		path = argv[0]
	}
	in, stdin, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	out, theirs, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	c, err := g.Start(ctx, Spec{Path: path, Argv: argv, Env: env, Stdin: in, Stdout: theirs, Stderr: theirs})
	_, _ = in.Close(), theirs.Close()
	if err != nil {
		_, _ = stdin.Close(), out.Close()
		return nil, nil, err
	}
	lines := make(chan string, 1000)
	go func() { // ends with the process tree
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			select {
			case lines <- s.Text():
			default:
			}
		}
		_, _ = out.Close(), stdin.Close()
	}()
	return c, lines, nil
}

// recorded returns the process ids in a test's file.
func recorded(file string) []int {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	var pids []int
	for field := range strings.FieldsSeq(string(b)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
