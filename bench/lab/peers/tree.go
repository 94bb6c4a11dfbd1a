//go:build linux

package main

import (
	"strings"
	"time"

	"dragoman/bench/lab/soak/procs"
	"dragoman/bench/measure"
)

// tree is a contender's processes: those that are the child that all have, and the contender's own, which is all others.
type tree struct {
	root  int
	child string // what the command line of a child begins with
	// beside is the server of a contender that has no child; it counts as one. 0: there is none.
	beside int
	seen   map[procs.ID]procs.Process
}

func newTree(root int, child string, beside int) *tree {
	return &tree{root: root, child: child, beside: beside, seen: map[procs.ID]procs.Process{}}
}

// census is what a contender has at a moment.
type census struct {
	Own      group `json:"proxy"` // all of it, the root included
	Root     group `json:"root"`  // the process that was started
	Children group `json:"children"`
	Zombies  int   `json:"zombies"`
}

// group is some processes together. Memory is bytes, see measure.Memory.
type group struct {
	Processes int           `json:"processes"`
	RSS       int64         `json:"rss"`
	PSS       int64         `json:"pss"`
	USS       int64         `json:"uss"`
	cpu       time.Duration // own time of the living
	reaped    time.Duration // of what they have reaped
}

func (g *group) add(m measure.Memory) {
	g.RSS += m.RSS
	g.PSS += m.PSS
	g.USS += m.USS
}

// members reads who there is. Who ends meanwhile is left out.
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

// isChild tells whether it is one that all have. A shell between it and its contender is the contender's.
func (t *tree) isChild(p procs.Process) bool {
	return p.PID == t.beside || p.PID != t.root && strings.HasPrefix(procs.CommandLine(p.PID)+" ", t.child+" ")
}

// times reads the CPU times only.
func (t *tree) times() (census, error) {
	return t.take(func(p procs.Process, g *group) {
		own, reaped, err := measure.ReadTimes(p.PID)
		if err == nil { // it may have ended meanwhile; then its parent has its time
			g.cpu += own
			g.reaped += reaped
		}
	})
}

// read counts processes and weighs them.
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

// survivors waits for everybody to end who was ever seen, or is one of its children, and gives those who have not.
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

// cpuBetween gives what the contender's own processes, and all together, have used between two readings.
func cpuBetween(before, after census) (own, all time.Duration) {
	sum := func(c census) time.Duration { return c.Own.cpu + c.Own.reaped + c.Children.cpu + c.Children.reaped }
	return after.Own.cpu - before.Own.cpu, sum(after) - sum(before)
}
