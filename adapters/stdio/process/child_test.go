//go:build unix

package process

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"dragoman/adapters/stdio/reaper"
)

// reaperKey makes the tests start their children through a reaper; see TestWithReaper.
const reaperKey = "STDIO_TEST_REAPER"

func TestMain(m *testing.M) {
	if reaper.Called(os.Args) {
		os.Exit(reaper.Main())
	}
	if role := os.Getenv(childKey); role != "" {
		os.Exit(playChild(role))
	}
	if os.Getenv(reaperKey) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	goleak.VerifyTestMain(reaperTests{m})
}

// reaperTests are the tests, with a reaper while they run.
type reaperTests struct{ *testing.M }

func (g reaperTests) Run() int {
	failed := make(chan error, 10)
	testReaper = reaper.New(reaper.Options{Exe: os.Args[0], Note: func(err error) { failed <- err }})
	code := g.M.Run()
	testReaper.Close()
	select {
	case err := <-failed:
		fmt.Fprintln(os.Stderr, err)
		return 1
	default:
		return code
	}
}

// playChild is the child's main. Every role exits after a minute at most, in case a test fails.
func playChild(role string) int {
	time.AfterFunc(time.Minute, func() { os.Exit(99) })
	name, arg, _ := strings.Cut(role, ":")
	switch name {
	case "echo":
		return echoLines()
	case "banner":
		fmt.Print("\xEF\xBB\xBFserver 1.0 starting…\r\n\r\n  ready\x00 \n")
		return echoLines()
	case "exit":
		code, _ := strconv.Atoi(arg)
		return code
	case "crash":
		for i := range 30 {
			fmt.Fprintf(os.Stderr, "line %d\n", i)
		}
		fmt.Fprintf(os.Stderr, "%s\n\x1b[31mpanic:\x1b[0m \xffout of luck\n", strings.Repeat("long ", 4000))
		fmt.Print("last words\nno newline")
		return 3
	case "env":
		fmt.Println(strings.Join(os.Environ(), "\t"))
		dir, _ := os.Getwd()
		fmt.Println(dir)
		return 0
	case "flags":
		for fd := range 3 {
			n, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
			fmt.Println(n&unix.O_NONBLOCK != 0, err)
		}
		return 0
	}
	return playBadChild(name, arg)
}

// playBadChild has the roles that misbehave.
func playBadChild(name, arg string) int {
	switch name {
	case "deaf": // ignores the end of stdin
		fmt.Println("ready")
		time.Sleep(time.Hour) // the child does nothing
	case "stubborn": // and SIGTERM
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		time.Sleep(time.Hour) // the child does nothing
	case "polite": // writes a line when it gets SIGTERM
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		fmt.Println("ready")
		<-c
		return 7
	case "flood":
		return floodLines()
	case "burst": // reads stdin only after it has written everything
		if _, err := os.Stdout.Write(bytes.Repeat([]byte("burst\n"), 1<<20)); err != nil {
			return 1
		}
		return echoLines()
	case "half": // writes an incomplete line
		fmt.Print("whole\nhalf")
		time.Sleep(time.Hour) // the child does nothing
	case "chatter": // floods stderr, then echoes
		for range 20_000 {
			fmt.Fprintln(os.Stderr, "some noise on stderr that nobody asked for")
		}
		return echoLines()
	case "fork": // starts a grandchild that holds the pipes; stays itself, or exits at once
		return forkChild(arg)
	case "supervisor": // starts a child through Start and waits to be killed
		p, err := Start(background(), child("deaf"))
		if err != nil {
			return 1
		}
		fmt.Println(p.PID())
		time.Sleep(time.Hour) // the child does nothing
	}
	return 98
}

func forkChild(arg string) int {
	what, then, _ := strings.Cut(arg, ",")
	cmd := exec.Command(os.Args[0])
	if escape, ok := strings.CutPrefix(what, "setsid-"); ok {
		what = escape
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	cmd.Env = []string{childKey + "=" + what, raceEnv}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 97
	}
	fmt.Println("forked", cmd.Process.Pid)
	if then == "exit" {
		return 5
	}
	return echoLines()
}
