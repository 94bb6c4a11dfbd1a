// Package launch starts a program as another user and with limits of memory and processors (Linux).
//
// What a process may do is best said by itself before it executes its program, so that no moment is left without a limit. Go starts
// programs without such a step in between. The process to start is therefore our own binary, which changes itself and then
// executes the program. It does so before other packages are initialized, in 2 ms, as package keeper does.
package launch

import (
	"slices"
	"strconv"
	"strings"
)

// key is the environment variable that makes a process launch a program: its arguments are the program's path and arguments. The
// program does not get it.
const key = "_DRAGOMAN_LAUNCH"

// Failed is the exit code of a process that could not become what it should. It has written why to its stderr.
const Failed = 126

// Account is whom a program runs as.
type Account struct {
	UID, GID int
	Groups   []int // supplementary ones
}

// Limits are what a program gets besides its environment. The zero value is nothing.
type Limits struct {
	Account *Account // nil: ours
	Memory  int      // bytes of data that each process may have (setrlimit(2), RLIMIT_DATA); 0 is no limit
	CPUs    int      // processors that all its processes may run on, of those that we may (sched_setaffinity(2)); 0 is no limit
}

// Wrap returns what to execute instead of a program at path, so that it runs within the limits.
func (l Limits) Wrap(path string, argv, env []string) (newPath string, newArgv, newEnv []string) {
	if l.Account == nil && l.Memory == 0 && l.CPUs == 0 {
		return path, argv, env
	}
	return "/proc/self/exe", slices.Concat([]string{"dragoman", path}, argv), append(slices.Clip(env), key+"="+l.encode())
}

// encode returns numbers with spaces between them: memory and processors, and UID, GID and groups if there is an account.
func (l Limits) encode() string {
	all := []int{l.Memory, l.CPUs}
	if a := l.Account; a != nil {
		all = append(append(all, a.UID, a.GID), a.Groups...)
	}
	var b strings.Builder
	for _, n := range all {
		b.WriteString(strconv.Itoa(n) + " ")
	}
	return b.String()
}

// decode is the inverse of encode. A field that is no number is an error.
func decode(text string) (Limits, error) {
	var all []int
	for field := range strings.FieldsSeq(text) {
		n, err := strconv.Atoi(field)
		if err != nil {
			return Limits{}, err
		}
		all = append(all, n)
	}
	switch len(all) {
	case 2:
		return Limits{Memory: all[0], CPUs: all[1]}, nil
	case 0, 1, 3:
		return Limits{}, strconv.ErrSyntax
	}
	return Limits{Memory: all[0], CPUs: all[1], Account: &Account{UID: all[2], GID: all[3], Groups: all[4:]}}, nil
}
