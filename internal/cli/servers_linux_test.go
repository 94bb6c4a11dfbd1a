package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"dragoman/internal/app"
	"dragoman/internal/testkit"
)

// terminal returns a pseudo-terminal: the side of the person, and that of the program.
func terminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no terminals: %v", err)
	}
	t.Cleanup(func() { person.Close() })
	raw, err := person.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	number := 0
	if cerr := raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	if program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return person, program
}

// On a terminal a removal is asked about, and tables have colours unless NO_COLOR is set.
func TestServersOnTerminal(t *testing.T) {
	s := serveAggregator(t, "commands = [\"npx\"]\n")
	s.register("one", toolsServer(t, "a"), true)
	s.becomes("one", "CONNECTED", 1)
	person, tty := terminal(t)
	run := func(environ []string, args ...string) (code int, errs string) {
		errors := &testkit.LockedBuffer{}
		code = Execute(t.Context(), append([]string{"servers"}, args...), append(s.environ, environ...), app.Streams{In: tty, Out: tty, Err: errors}, Runners{})
		return code, errors.String()
	}
	shown := bufio.NewReader(person)
	for environ, want := range map[string]string{"TERM=xterm": "one   \x1b[32mCONNECTED\x1b[0m  1      HTTP", "NO_COLOR=1": "one   CONNECTED  1      HTTP"} {
		if code, errs := run([]string{environ}, "list"); code != ExitOK {
			t.Fatalf("%d %s", code, errs)
		}
		head, _ := shown.ReadString('\n')
		if line, _ := shown.ReadString('\n'); !strings.HasPrefix(line, want) || !strings.Contains(head, "STATUS") {
			t.Errorf("%s: %q %q", environ, head, line)
		}
	}
	for _, test := range []struct {
		answer string
		code   int
	}{{"\n", ExitFailed}, {"no\n", ExitFailed}, {"Yes\n", ExitOK}} {
		if _, err := person.WriteString(test.answer); err != nil {
			t.Fatal(err)
		}
		code, errs := run(nil, "remove", "one")
		if code != test.code || !strings.HasPrefix(errs, "Remove one with 1 tool? [y/N] ") || code != ExitOK && !strings.Contains(errs, "nothing was removed") {
			t.Errorf("%q: %d %q", test.answer, code, errs)
		}
	}
	s.want(ExitFailed, "Server not found: one", "show", "one")
	for _, test := range []struct {
		answer string
		code   int
	}{{"n\n", ExitFailed}, {"y\n", ExitOK}} {
		if _, err := person.WriteString(test.answer); err != nil {
			t.Fatal(err)
		}
		code, errs := run(nil, "add", "two", "--no-connect", "--", "npx", "-y", "server@1.2.3")
		if code != test.code || !strings.HasPrefix(errs, "starts   npx -y server@1.2.3\npackage  server, version 1.2.3\nStart it on the machine of dragoman? [y/N] ") || code != ExitOK && !strings.Contains(errs, "nothing was sent") {
			t.Errorf("%q: %d %q", test.answer, code, errs)
		}
	}
	if code, errs := run(nil, "edit", "two", "--yes", "--", "npx", "server@1.2.4"); code != ExitOK || strings.Contains(errs, "[y/N]") {
		t.Errorf("with --yes: %d %q", code, errs)
	}
}

// On a terminal --watch draws the table again with each change.
func TestServersWatchOnTerminal(t *testing.T) {
	s := serveAggregator(t, "")
	s.register("one", toolsServer(t, "a"), false)
	person, tty := terminal(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- Execute(ctx, []string{"servers", "list", "--watch"}, append(s.environ, "NO_COLOR=1"), app.Streams{In: tty, Out: tty, Err: io.Discard}, Runners{})
	}()
	shown := bufio.NewReader(person)
	table := func(want string) {
		t.Helper()
		for {
			head, err := shown.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if row, _ := shown.ReadString('\n'); !strings.HasPrefix(head, "\x1b[H\x1b[2JNAME  STATUS") {
				t.Fatalf("drawn %q %q", head, row)
			} else if strings.HasPrefix(row, want) {
				return
			}
		}
	}
	table("one   DISCONNECTED  0      HTTP")
	s.want(ExitOK, "one is connected", "connect", "one")
	table("one   CONNECTED  1      HTTP")
	cancel()
	if code := testkit.Receive(t, "its end", ended); code != ExitOK {
		t.Errorf("code %d", code)
	}
}

// On a terminal it asks.
func TestApproveOnTerminal(t *testing.T) {
	s, server, _ := approving(t)
	setTool(server, "a", "Changed.")
	s.holds(1)
	person, tty := terminal(t)
	shown := bufio.NewReader(person)
	for _, test := range []struct {
		answer string
		code   int
	}{{"\n", ExitFailed}, {"y\n", ExitOK}} {
		if _, err := person.WriteString(test.answer); err != nil {
			t.Fatal(err)
		}
		errs := &testkit.LockedBuffer{}
		code := Execute(t.Context(), []string{"approve", "one"}, append(s.environ, "TERM=xterm"), app.Streams{In: tty, Out: tty, Err: errs}, Runners{})
		if code != test.code || !strings.HasPrefix(errs.String(), "Approve 1 definition of one? [y/N] ") || code != ExitOK && !strings.Contains(errs.String(), "nothing was approved") {
			t.Errorf("%q: %d %q", test.answer, code, errs)
		}
	}
	var lines string
	for range 4 { // the terminal shows the answers, too
		line, _ := shown.ReadString('\n')
		lines += line
	}
	if want := "tool a \x1b[33mhas changed\x1b[0m"; !strings.Contains(lines, want) {
		t.Errorf("shown %q, want %q", lines, want)
	}
	s.holds(0)
}

// Of a command that ends the error leads to the log, which has what the command wrote.
func TestServersCommandThatEnds(t *testing.T) {
	s := serveAggregator(t, "commands = [\"false\"]\n")
	s.want(ExitFailed, "two is registered, but not connected (ERROR): ", "add", "two", "--", "false")
	s.want(ExitFailed, "`dragoman servers show two` shows how it goes on, and the log of dragoman what it has written\n", "connect", "two")
}
