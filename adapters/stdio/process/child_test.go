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

// playSystemChild has the roles of Unix.
func playSystemChild(name, arg string) int {
	switch name {
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
	case "account":
		_, _, err := Account("", "12345")
		fmt.Println(err)
		return 0
	case "flags":
		for fd := range 3 {
			n, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
			fmt.Println(n&unix.O_NONBLOCK != 0, err)
		}
		return 0
	}
	return playBadChild(name)
}

// playBadChild has the roles that misbehave.
func playBadChild(name string) int {
	switch name {
	case "stubborn": // ignores the end of stdin, and SIGTERM
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		time.Sleep(time.Hour) // the child does nothing
	case "polite": // writes a line when it gets SIGTERM
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		fmt.Println("ready")
		<-c
		return 7
	case "burst": // reads stdin only after it has written everything
		if _, err := os.Stdout.Write(bytes.Repeat([]byte("burst\n"), 1<<20)); err != nil {
			return 1
		}
		return echoLines()
	case "chatter": // floods stderr, then echoes
		for range 20_000 {
			fmt.Fprintln(os.Stderr, "some noise on stderr that nobody asked for")
		}
		return echoLines()
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

// escape gives a grandchild a session of its own if its role asks for it, and returns the role without that.
func escape(cmd *exec.Cmd, role, _ string) string {
	role, found := strings.CutPrefix(role, "setsid-")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: found}
	return role
}
