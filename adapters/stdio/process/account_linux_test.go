package process

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"dragoman/adapters/stdio/launch"
)

// shell returns a command that a shell runs.
func shell(text string) Command {
	return Command{Argv: []string{"/bin/sh", "-c", text}, Reaper: testReaper}
}

// nobody is the account of the user nobody. Only root can use it.
func nobody(t *testing.T) *launch.Account {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("the tests do not run as root")
	}
	a, env, err := Account("nobody", "")
	if err != nil {
		t.Fatal(err)
	}
	if len(env) != 3 || !strings.HasPrefix(env[0], "HOME=/") || env[1] != "USER=nobody" || env[2] != "LOGNAME=nobody" {
		t.Errorf("%q", env)
	}
	return a
}

// A child runs as the user and group that it is given, in every sense, and its children too.
func TestProcessOfAnotherUser(t *testing.T) {
	t.Parallel()
	a := nobody(t)
	c := shell(`grep -E '^(Uid|Gid|Groups|CapEff):' /proc/self/status; sh -c 'id -u'; env | grep _DRAGOMAN_LAUNCH; cat; echo end`)
	c.Limits.Account = a
	p := start(t, c)
	ids := func(n int) string { return strings.Repeat(fmt.Sprintf("\t%d", n), 4) }
	expect(t, p, "Uid:"+ids(a.UID))
	expect(t, p, "Gid:"+ids(a.GID))
	expect(t, p, fmt.Sprintf("Groups:\t%d ", a.GID))
	expect(t, p, "CapEff:\t0000000000000000")
	expect(t, p, fmt.Sprint(a.UID))
	must(t, p.in.Close())
	expect(t, p, "end")
}

// A group alone leaves the user.
func TestProcessOfAnotherGroup(t *testing.T) {
	t.Parallel()
	nobody(t)
	a, env, err := Account("", "12345")
	if err != nil || len(env) > 0 {
		t.Fatal(env, err)
	}
	c := shell(`id -u; id -g; cat`)
	c.Limits.Account = a
	p := start(t, c)
	expect(t, p, "0")
	expect(t, p, "12345")
}

// A process that needs more than its memory gets none; one that needs less has it, and cannot raise the limit.
func TestProcessWithAMemoryLimit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("tail"); err != nil {
		t.Skip(err)
	}
	c := shell(`ulimit -d; ulimit -d unlimited 2>/dev/null; ulimit -H -d
		head -c 200000 /dev/zero | tail -c 100000 | wc -c
		head -c 100000000 /dev/zero | tail -c 99999999 2>&1 >/dev/null | grep -c -i memory; cat`)
	c.Env = BaseEnv(nil)
	c.Limits = launch.Limits{Memory: 32 << 20}
	if os.Geteuid() == 0 { // root may raise it
		c.Limits.Account = nobody(t)
	}
	p := start(t, c)
	for _, want := range []string{"32768", "32768", "100000", "1"} {
		expect(t, p, want)
	}
}

// A process and its children run on as many processors as they are given, of ours. With more than there are they have all.
func TestProcessWithAProcessorLimit(t *testing.T) {
	t.Parallel()
	all := runtime.NumCPU()
	if all < 2 {
		t.Skip("there is one processor")
	}
	for _, row := range []struct{ limit, want int }{{1, 1}, {all - 1, all - 1}, {all + 1, all}} {
		c := shell(`nproc; sh -c 'exec nproc'; cat`)
		c.Env = BaseEnv(nil)
		c.Limits = launch.Limits{CPUs: row.limit}
		p := start(t, c)
		expect(t, p, strconv.Itoa(row.want))
		expect(t, p, strconv.Itoa(row.want))
	}
}

// A program that the child's user may not execute ends the child, which says why.
func TestProcessThatItsUserMayNotStart(t *testing.T) {
	t.Parallel()
	a := nobody(t)
	file := t.TempDir() + "/program"
	must(t, os.WriteFile(file, []byte("#!/bin/sh\ncat\n"), 0o700))
	c := Command{Argv: []string{file}, Limits: launch.Limits{Account: a}, Reaper: testReaper}
	p := start(t, c)
	e := await(t, p)
	if e.Code != launch.Failed || !strings.Contains(e.Error(), "cannot start "+file+": execve: permission denied") {
		t.Errorf("%+v", e)
	}
}

// Errors about accounts say what to change.
func TestAccountErrors(t *testing.T) {
	t.Parallel()
	f := func(user, group, want string) {
		t.Helper()
		if _, _, err := Account(user, group); err == nil || err.Error() != want {
			t.Errorf("%q, %q: %v", user, group, err)
		}
	}
	f("no-such-user", "", `there is no user "no-such-user" on this system; create it, or write the number of one`)
	f("", "no-such-group", `there is no group "no-such-group" on this system; create it, or write the number of one`)
	f("54321", "", `the user 54321 has no entry on this system, and so no group; set group as well`)
	own := fmt.Sprint(os.Geteuid())
	if a, _, err := Account(own, fmt.Sprint(os.Getegid())); a != nil || err != nil {
		t.Errorf("our own account: %+v, %v", a, err)
	}
}

// Without privileges no child gets another account, and the error names what is missing.
func TestAccountWithoutPrivileges(t *testing.T) {
	t.Parallel()
	a := nobody(t)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = []string{childKey + "=account", raceEnv}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(a.UID), Gid: uint32(a.GID)}}
	out, err := cmd.CombinedOutput()
	const want = "children cannot run as another user, for lack of CAP_KILL, CAP_SETGID, CAP_SETUID; " +
		"start Dragoman as root or with these capabilities, or remove user and group\n"
	if err != nil || string(out) != want {
		t.Errorf("%s, %v", out, err)
	}
}
