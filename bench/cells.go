package main

import (
	"fmt"
	"slices"
	"strings"

	"dragoman/bench/load/drive"
)

// The processes that can be measured. targets.start has what each needs.
const (
	modernUpstream = "upstream-modern"
	legacyUpstream = "upstream-legacy"
	bareProxy      = "fasthttp"
	nginxProxy     = "nginx"
	dragomanModern = "dragoman-modern" // in front of the modern upstream
	dragomanLegacy = "dragoman-legacy" // in front of the legacy upstream
	dragomanStdio  = "dragoman-stdio"  // in front of a modern child
	mergeModern    = "merge-modern"    // several modern servers as one
	mergeLegacy    = "merge-legacy"    // several legacy servers as one
	mergeStdio     = "merge-stdio"     // the same, of which the first is a legacy child
	aloneStdio     = "alone-stdio"     // that child alone
)

// The names of cells.
const (
	baseline         = "fasthttp" // every other cell is compared with it
	cellDirect       = "direct"
	cellNginx        = "nginx"
	cellModern       = "modern"
	cellLegacy       = "legacy"
	cellStdio        = "stdio"
	cellModernLegacy = "modern-legacy"
	cellLegacyModern = "legacy-modern"

	cellMergeModern       = "merge-modern"
	cellMergeLegacy       = "merge-legacy"
	cellMergeStdio        = "merge-stdio"
	cellMergeModernLegacy = "merge-modern-legacy"
	cellMergeLegacyModern = "merge-legacy-modern"
	cellAloneStdio        = "legacy-stdio"
)

// The size of a merge: so many servers, each with so many tools.
const (
	mergedServers = 50
	mergedTools   = 200
)

// cell is a client of one era that calls one process.
type cell struct {
	name   string
	what   string // for people
	target string
	face   drive.Face
	lists  bool   // it calls tools/list; otherwise the tool
	method string // of gRPC, which ghz calls; empty: the face's client calls
}

// allCells lists the cells in the order in which they are printed.
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
		{name: cellAloneStdio, what: "dragoman, legacy to a legacy child", target: aloneStdio, face: drive.LegacyHTTP},
		{name: cellMergeModern, what: "several servers, modern to modern", target: mergeModern, face: drive.ModernHTTP},
		{name: cellMergeLegacy, what: "several servers, legacy to legacy", target: mergeLegacy, face: drive.LegacyHTTP},
		{name: cellMergeStdio, what: "several servers, legacy to a legacy child", target: mergeStdio, face: drive.LegacyHTTP},
		{name: cellMergeModernLegacy, what: "several servers, modern client, legacy server", target: mergeLegacy, face: drive.ModernHTTP},
		{name: cellMergeLegacyModern, what: "several servers, legacy client, modern server", target: mergeModern, face: drive.LegacyHTTP},
	}
}

// cellsOf returns the cells of a choice that have one of the names.
func cellsOf(choice []cell, names ...string) (some []cell) {
	for _, c := range choice {
		if slices.Contains(names, c.name) {
			some = append(some, c)
		}
	}
	return some
}

func (c cell) String() string { return c.name }

// Cells of the section of policies.
const (
	cellOff = "off"
	cellOn  = "on"
)

// The cells of the section grpc, and the processes that only it has.
const (
	cellProvider    = "provider"     // Dragoman in front of a provider
	cellService     = "service"      // Dragoman in front of any service
	cellVanguard    = "vanguard"     // a transcoder in front of that service
	cellGateway     = "grpc-gateway" // another
	cellGhzProvider = "ghz-provider" // gRPC without a hop
	cellGhzService  = "ghz-service"  // the same
	grpcServer      = "grpc-server"  // has both, by reflection too
	sayMethod       = "/bench.echo.v1.Echo/Say"
	callToolMethod  = "/mcp.provider.v1.Provider/CallTool"
	providerTool    = "echo.v1" // names of a provider's tools have a version
)

// section is a part of the suite, with processes of its own.
type section struct{ name, what string }

// The names of sections.
const (
	secCalls    = "calls"
	secSSE      = "sse"
	secLatency  = "latency"
	secPolicies = "policies"
	secAllocs   = "allocations"
	secStart    = "start"
	secGrowth   = "growth"
	secSeveral  = "several"
	secGRPC     = "grpc"
	secMemory   = "memory"
)

// allSections lists the sections in the order in which they run. The one with the longest waits is last.
func allSections() []section {
	return []section{
		{secCalls, "a call in every cell, by size"},
		{secSSE, "answers as event streams"},
		{secLatency, "one connection: the latency that a hop adds"},
		{secPolicies, "all policies on, and all off"},
		{secAllocs, "allocations of a call"},
		{secStart, "from the start of the process to its first correct answer"},
		{secGrowth, "few and many tools, servers, sessions"},
		{secSeveral, "several servers as one: a long list, a restart, bad servers, 100,000 tools"},
		{secGRPC, "gRPC servers, beside transcoders and ghz"},
		{secMemory, "idle sessions, and whether they grow"},
	}
}

func (s section) String() string { return s.name }

// names joins the names of cells or sections with commas.
func names[T fmt.Stringer](all []T) string {
	var words []string
	for _, one := range all {
		words = append(words, one.String())
	}
	return strings.Join(words, ",")
}

// choose picks those of all that the comma-separated list of a flag names, and those that are always there. An empty list picks all.
func choose[T fmt.Stringer](flag, list string, all []T, always ...string) ([]T, error) {
	if list == "" {
		return all, nil
	}
	wanted := strings.Split(list, ",")
	for _, name := range wanted {
		if !slices.ContainsFunc(all, func(one T) bool { return one.String() == name }) {
			return nil, fmt.Errorf("bench: --%s: there is no %q, only %s", flag, name, names(all))
		}
	}
	return slices.DeleteFunc(all, func(one T) bool { return !slices.Contains(append(always, wanted...), one.String()) }), nil
}
