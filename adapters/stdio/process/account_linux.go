package process

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"dragoman/adapters/stdio/launch"
)

// capabilities that it takes to start a process of another user, and to end it, by their bits (capabilities(7)).
var capabilities = []struct {
	bit  int
	name string
}{{5, "CAP_KILL"}, {6, "CAP_SETGID"}, {7, "CAP_SETUID"}}

// Account finds the account for children that run as a user, a group, or both, which are names or numbers; "" is none. The
// account is nil if it is our own. env has the variables HOME, USER and LOGNAME of a user. The errors say what to change.
func Account(userName, groupName string) (account *launch.Account, env []string, err error) {
	a := &launch.Account{UID: os.Geteuid(), GID: os.Getegid()}
	if userName != "" {
		if env, err = accountOf(a, userName, groupName != ""); err != nil {
			return nil, nil, err
		}
	}
	if groupName != "" {
		if err := groupOf(a, groupName); err != nil {
			return nil, nil, err
		}
	}
	if a.UID == os.Geteuid() && a.GID == os.Getegid() {
		return nil, env, nil
	}
	return a, env, privileged()
}

// accountOf fills in a user's ids. A number without an entry needs a group.
func accountOf(a *launch.Account, name string, hasGroup bool) (env []string, err error) {
	number, notNumber := strconv.ParseUint(name, 10, 31)
	var u *user.User
	if notNumber != nil {
		u, err = user.Lookup(name)
	} else {
		u, err = user.LookupId(name)
	}
	switch {
	case err == nil:
	case notNumber != nil:
		return nil, fmt.Errorf("there is no user %q on this system; create it, or write the number of one", name)
	case !hasGroup:
		return nil, fmt.Errorf("the user %s has no entry on this system, and so no group; set group as well", name)
	default:
		a.UID = int(number)
		return nil, nil
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	a.UID, a.GID = uid, gid
	ids, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("the groups of the user %q are not known: %w", name, err)
	}
	for _, id := range ids {
		if n, err := strconv.Atoi(id); err == nil {
			a.Groups = append(a.Groups, n)
		}
	}
	return []string{"HOME=" + u.HomeDir, "USER=" + u.Username, "LOGNAME=" + u.Username}, nil
}

// groupOf fills in the group.
func groupOf(a *launch.Account, name string) error {
	number, err := strconv.ParseUint(name, 10, 31)
	if err == nil {
		a.GID = int(number)
		return nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return fmt.Errorf("there is no group %q on this system; create it, or write the number of one", name)
	}
	a.GID, err = strconv.Atoi(g.Gid)
	return err
}

// privileged returns an error if we may not start and end processes of other users.
func privileged() error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, after, _ := strings.Cut(string(status), "\nCapEff:")
	line, _, _ := strings.Cut(after, "\n")
	have, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	if err != nil {
		return fmt.Errorf("our capabilities are not known: %w", err)
	}
	var missing []string
	for _, c := range capabilities {
		if have>>c.bit&1 == 0 {
			missing = append(missing, c.name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("children cannot run as another user, for lack of %s; start Dragoman as root or with these capabilities, "+
		"or remove user and group", strings.Join(missing, ", "))
}
