package main

import (
	"fmt"
	"slices"
	"strings"

	"dragoman/bench/load"
)

// The processes that can be measured. What each needs stands in target.start.
const (
	modernUpstream = "upstream-modern"
	legacyUpstream = "upstream-legacy"
	bareProxy      = "fasthttp"
	nginxProxy     = "nginx"
	dragomanModern = "dragoman-modern" // in front of the modern upstream
	dragomanLegacy = "dragoman-legacy" // in front of the legacy upstream
	dragomanStdio  = "dragoman-stdio"  // in front of a modern child
)

// baseline is the cell that every other one is compared with.
const baseline = "fasthttp"

// cell is one row of the table: a client of some era at some process.
type cell struct {
	name   string
	what   string // for people
	target string
	era    load.Era
}

// allCells is every cell, in the order in which they are printed.
func allCells() []cell {
	return []cell{
		{name: "direct", what: "no hop", target: modernUpstream, era: load.Modern},
		{name: baseline, what: "bare fasthttp proxy", target: bareProxy, era: load.Modern},
		{name: "nginx", what: "nginx, one worker", target: nginxProxy, era: load.Modern},
		{name: "modern", what: "dragoman, modern to modern", target: dragomanModern, era: load.Modern},
		{name: "legacy", what: "dragoman, legacy to legacy", target: dragomanLegacy, era: load.Legacy},
		{name: "stdio", what: "dragoman, modern to a modern child", target: dragomanStdio, era: load.Modern},
		{name: "modern-legacy", what: "dragoman, modern client, legacy upstream", target: dragomanLegacy, era: load.Modern},
		{name: "legacy-modern", what: "dragoman, legacy client, modern upstream", target: dragomanModern, era: load.Legacy},
	}
}

func cellNames() string {
	var names []string
	for _, c := range allCells() {
		names = append(names, c.name)
	}
	return strings.Join(names, ",")
}

// chooseCells picks the cells of a list with commas; all of an empty one. The
// baseline is always among them.
func chooseCells(list string) ([]cell, error) {
	if list == "" {
		return allCells(), nil
	}
	wanted := strings.Split(list, ",")
	var cells []cell
	for _, c := range allCells() {
		if c.name == baseline || slices.Contains(wanted, c.name) {
			cells = append(cells, c)
		}
	}
	for _, name := range wanted {
		if !slices.ContainsFunc(cells, func(c cell) bool { return c.name == name }) {
			return nil, fmt.Errorf("bench: --cells: there is no %q, only %s", name, cellNames())
		}
	}
	return cells, nil
}
