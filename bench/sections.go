package main

import (
	"fmt"
	"slices"
	"strings"
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
