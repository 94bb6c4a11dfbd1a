//go:build linux

package main

import (
	"strings"
	"time"

	"dragoman/bench/lab/soak/procs"
	"dragoman/bench/measure"
)

// tree has the processes of a contender: the children, and its own, which are all others.
type tree struct {
	root  int
	child string // prefix of a child's command line
	// beside is the server of a contender without a child; it counts as a child. 0: none.
	beside int
	seen   map[procs.ID]procs.Process
}

func newTree(root int, child string, beside int) *tree {
	return &tree{root: root, child: child, beside: beside, seen: map[procs.ID]procs.Process{}}
}

// census counts the processes of a contender at one time.
type census struct {
	Own      group `json:"proxy"` // all own processes, the root included
	Root     group `json:"root"`  // the process that was started
	Children group `json:"children"`
	Zombies  int   `json:"zombies"`
}

// group sums up some processes. Memory is in bytes, see measure.Memory.
type group struct {
	Processes int           `json:"processes"`
	RSS       int64         `json:"rss"`
	PSS       int64         `json:"pss"`
	USS       int64         `json:"uss"`
	cpu       time.Duration // own CPU time of living processes
	reaped    time.Duration // CPU time of what they have reaped
}

func (g *group) add(m measure.Memory) {
	g.RSS += m.RSS
	g.PSS += m.PSS
	g.USS += m.USS
}

// members reads the processes. A process that ends meanwhile is left out.
func (t *tree) members() ([]procs.Process, error) {
	table, err := procs.Read()
	if err != nil {
		return nil, err
	}
	family := table.Below(t.root)
	for _, pid := range []int{t.root, t.beside} {
		if p, ok := table[pid]; ok {
			family = append(family, p)
		}
	}
	for _, p := range family {
		t.seen[p.ID()] = p
	}
	return family, nil
}

// isChild reports whether a process is the child. A shell between it and its contender is the contender's.
func (t *tree) isChild(p procs.Process) bool {
	return p.PID == t.beside || p.PID != t.root && strings.HasPrefix(procs.CommandLine(p.PID)+" ", t.child+" ")
}

// times reads the CPU times only.
func (t *tree) times() (census, error) {
	return t.take(func(p procs.Process, g *group) {
		own, reaped, err := measure.ReadTimes(p.PID)
		if err == nil { // it may have ended; then its parent has its time
			g.cpu += own
			g.reaped += reaped
		}
	})
}

// read counts the processes and reads their memory.
func (t *tree) read() (census, error) {
	return t.take(func(p procs.Process, g *group) {
		if m, err := measure.ReadMemory(p.PID); err == nil {
			g.add(m)
		}
	})
}

func (t *tree) take(look func(procs.Process, *group)) (census, error) {
	var c census
	family, err := t.members()
	for _, p := range family {
		switch {
		case p.Zombie():
			c.Zombies++
		case t.isChild(p):
			c.Children.Processes++
			look(p, &c.Children)
		default:
			c.Own.Processes++
			look(p, &c.Own)
			if p.PID == t.root {
				c.Root.Processes++
				look(p, &c.Root)
			}
		}
	}
	return c, err
}

// survivors waits until all processes that were seen, or are children, have ended, and returns those that have not.
func (t *tree) survivors(limit time.Duration) []procs.Process {
	end := time.Now().Add(limit)
	for {
		table, err := procs.Read()
		if err != nil {
			return nil
		}
		var left []procs.Process
		for _, p := range table {
			_, seen := t.seen[p.ID()]
			if !p.Zombie() && (seen || t.isChild(p)) {
				left = append(left, p)
			}
		}
		if len(left) == 0 || time.Now().After(end) {
			return left
		}
		<-time.After(20 * time.Millisecond)
	}
}

// cpuBetween returns the CPU time of the contender's own processes, and of all, between two readings.
func cpuBetween(before, after census) (own, all time.Duration) {
	sum := func(c census) time.Duration { return c.Own.cpu + c.Own.reaped + c.Children.cpu + c.Children.reaped }
	return after.Own.cpu - before.Own.cpu, sum(after) - sum(before)
}
