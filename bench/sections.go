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

// allSections is every section, in the order in which they run: the one that waits most comes last.
func allSections() []section {
	return []section{
		{secCalls, "a call in every cell, by size"},
		{secSSE, "answers as event streams"},
		{secLatency, "one connection: what a hop adds"},
		{secPolicies, "all policies on, and all off"},
		{secAllocs, "allocations of a call"},
		{secStart, "from the start of the process to its first right answer"},
		{secGrowth, "few and many tools, servers, sessions"},
		{secMemory, "idle sessions, and whether they grow"},
	}
}

func (s section) String() string { return s.name }
