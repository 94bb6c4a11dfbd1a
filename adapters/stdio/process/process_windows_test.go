package process

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/windows"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childKey); role != "" {
		os.Exit(playChild(role))
	}
	goleak.VerifyTestMain(m)
}

// playSystemChild has the roles of Windows.
func playSystemChild(name, arg string) int {
	switch name {
	case "exit":
		code, _ := strconv.ParseUint(arg, 0, 32)
		windows.ExitProcess(uint32(code))
	case "crash":
		fmt.Fprint(os.Stderr, "one\ntwo\n")
		fmt.Print("last words\nno newline")
		return 3
	case "args":
		for _, arg := range os.Args[1:] {
			fmt.Printf("%q\n", arg)
		}
		dir, _ := os.Getwd()
		fmt.Println(dir)
		return 0
	case "nothing": // writes no bytes at all, time and again, and a line in between
		for i := range 3 {
			var n uint32
			for range 2 {
				_ = windows.WriteFile(windows.Stdout, nil, &n, nil)
			}
			fmt.Println("line", i)
		}
		return echoLines()
	case "stubborn", "polite": // hear CTRL_BREAK; one exits by it
		c := make(chan os.Signal, 1)
		signal.Notify(c, os.Interrupt)
		fmt.Println("ready")
		for range c {
			if name == "polite" {
				return 7
			}
		}
	case "supervisor": // starts a tree through Start and waits to be killed
		p, err := Start(background(), child("fork:deaf,stay"))
		if err != nil {
			return 1
		}
		fmt.Println(p.PID())
		for line, err := range allLines(p) {
			if err == nil {
				fmt.Println(string(line))
			}
		}
	}
	return 98
}

// escape gives a grandchild a process group of its own, and lets it leave the job if then is "away".
func escape(cmd *exec.Cmd, role, then string) string {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
	if then == "away" {
		cmd.SysProcAttr.CreationFlags |= windows.CREATE_BREAKAWAY_FROM_JOB
	}
	return role
}

// watched is a handle to a process, so that its exit can be observed and its id is not reused.
func watched(t testing.TB, pid int) windows.Handle {
	t.Helper()
	const rights = windows.SYNCHRONIZE | windows.PROCESS_TERMINATE | windows.PROCESS_QUERY_INFORMATION
	h, err := windows.OpenProcess(rights, false, uint32(pid))
	if err != nil {
		t.Fatalf("process %d: %v", pid, err)
	}
	t.Cleanup(func() {
		_ = windows.TerminateProcess(h, 1)
		_ = windows.CloseHandle(h)
	})
	return h
}

func dead(h windows.Handle) bool {
	s, err := windows.WaitForSingleObject(h, 0)
	return err == nil && s == windows.WAIT_OBJECT_0
}

func forked(t *testing.T, p *Process, word string) windows.Handle {
	t.Helper()
	return watched(t, forkedPID(t, p, word))
}

// noProcessLeft checks nothing: the system ends the processes of a job with its handle.
func noProcessLeft(testing.TB, *Process) {}

// canBreak reports whether CTRL_BREAK can be sent to a child: there must be a console. Wine reports success without sending it.
func canBreak(t testing.TB) bool {
	t.Helper()
	h, err := windows.CreateFile(windows.StringToUTF16Ptr("CONOUT$"), windows.GENERIC_READ|windows.GENERIC_WRITE,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE, nil, windows.OPEN_EXISTING, 0, 0)
	if err != nil {
		return false
	}
	_ = windows.CloseHandle(h)
	if windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil {
		t.Skip("wine has no process groups on a console")
	}
	return true
}
