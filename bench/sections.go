package main

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
		{secMemory, "idle sessions, and whether they grow"},
	}
}

func (s section) String() string { return s.name }
