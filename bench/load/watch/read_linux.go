package watch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"dragoman/bench/measure"
)

// Read reads the resources of processes.
func Read(pids []int) (Use, error) {
	var u Use
	for _, pid := range pids {
		cpu, err := measure.ReadCPU(pid)
		if err != nil {
			return u, fmt.Errorf("watch: process %d: %w", pid, cause(err))
		}
		u.Own, u.Children = u.Own+cpu.Own, u.Children+cpu.Children
		rss, err := measure.ReadRSS(pid)
		if err != nil {
			return u, fmt.Errorf("watch: process %d: %w", pid, cause(err))
		}
		u.RSS += rss
		u.Threads += count(pid, "task")
		u.Files += count(pid, "fd")
		family, err := measure.Descendants(pid)
		if err != nil {
			return u, fmt.Errorf("watch: process %d: %w", pid, err)
		}
		for _, below := range family {
			if rss, err := measure.ReadRSS(below); err == nil { // it may have ended meanwhile
				u.ChildrenRSS += rss
				u.Below++
			}
		}
	}
	return u, nil
}

// cause returns the system's reason for a missing process, shortened.
func cause(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return errors.New("no such process")
	}
	if errors.Is(err, os.ErrPermission) {
		return errors.New("permission denied")
	}
	return err
}

// count counts the entries of a directory of a process; 0 if it cannot be read.
func count(pid int, name string) int {
	d, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), name))
	if err != nil {
		return 0
	}
	defer func() { _ = d.Close() }()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return 0
	}
	return len(names)
}

const listening = "0A" // of /proc/net/tcp

// PIDOfPort finds the process that listens on a TCP port of this machine. If several do, as with a server that has workers, it returns
// their common ancestor among them.
func PIDOfPort(port int) (int, error) {
	inodes := map[string]bool{}
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		raw, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(raw)) {
			f := strings.Fields(line)
			if len(f) > 9 && f[3] == listening && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
				inodes["socket:["+f[9]+"]"] = true
			}
		}
	}
	if len(inodes) == 0 {
		return 0, fmt.Errorf("watch: no process on this machine listens on port %d", port)
	}
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return 0, fmt.Errorf("watch: %w", err)
	}
	var pids []int
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && inodes[to] {
			pid, err := strconv.Atoi(strings.Split(link, "/")[2])
			if err == nil && !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
	}
	if len(pids) == 0 {
		return 0, fmt.Errorf("watch: the process that listens on port %d belongs to another user and cannot be read", port)
	}
	slices.Sort(pids)
	for _, pid := range pids {
		if family, err := measure.Descendants(pid); err == nil && len(family) >= len(pids)-1 {
			return pid, nil
		}
	}
	return pids[0], nil
}
