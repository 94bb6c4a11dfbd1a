package main

import (
	"fmt"
	"slices"
	"strings"

	"dragoman/bench/load/drive"
	"dragoman/bench/reference"
)

// The processes that can be measured. What each needs stands in targets.start.
const (
	modernUpstream = "upstream-modern"
	legacyUpstream = "upstream-legacy"
	bareProxy      = "fasthttp"
	nginxProxy     = "nginx"
	dragomanModern = "dragoman-modern" // in front of the modern upstream
	dragomanLegacy = "dragoman-legacy" // in front of the legacy upstream
	dragomanStdio  = "dragoman-stdio"  // in front of a modern child
)

// The names of cells that targets speak of.
const (
	baseline         = "fasthttp" // that every other one is compared with
	cellDirect       = "direct"
	cellNginx        = "nginx"
	cellModern       = "modern"
	cellLegacy       = "legacy"
	cellStdio        = "stdio"
	cellModernLegacy = "modern-legacy"
	cellLegacyModern = "legacy-modern"
)

// cell is a client of some era at some process.
type cell struct {
	name   string
	what   string // for people
	target string
	face   drive.Face
}

// allCells is every cell, in the order in which they are printed.
func allCells() []cell {
	return []cell{
		{name: cellDirect, what: "no hop", target: modernUpstream, face: drive.ModernHTTP},
		{name: baseline, what: "bare fasthttp proxy", target: bareProxy, face: drive.ModernHTTP},
		{name: cellNginx, what: "nginx, one worker", target: nginxProxy, face: drive.ModernHTTP},
		{name: cellModern, what: "dragoman, modern to modern", target: dragomanModern, face: drive.ModernHTTP},
		{name: cellLegacy, what: "dragoman, legacy to legacy", target: dragomanLegacy, face: drive.LegacyHTTP},
		{name: cellStdio, what: "dragoman, modern to a modern child", target: dragomanStdio, face: drive.ModernHTTP},
		{name: cellModernLegacy, what: "dragoman, modern client, legacy upstream", target: dragomanLegacy, face: drive.ModernHTTP},
		{name: cellLegacyModern, what: "dragoman, legacy client, modern upstream", target: dragomanModern, face: drive.LegacyHTTP},
	}
}

// cellsOf are those cells of a choice that have one of the names.
func cellsOf(choice []cell, names ...string) (some []cell) {
	for _, c := range choice {
		if slices.Contains(names, c.name) {
			some = append(some, c)
		}
	}
	return some
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

// revision is what clients of a face speak.
func revision(f drive.Face) string {
	if f == drive.LegacyHTTP {
		return reference.LegacyVersion
	}
	return reference.ModernVersion
}

// plan says how the clients of a face call a target: size is the length of requests and of answers.
func (t *target) plan(f drive.Face, size int, sse bool) drive.Plan {
	return drive.Plan{
		Face: f, Revision: revision(f), Addr: t.addr, Host: t.addr, Path: path, Paths: t.paths, Header: t.header,
		Calls: []drive.Call{drive.EchoCall(f, size, size, sse)}, Connections: 1,
	}
}
