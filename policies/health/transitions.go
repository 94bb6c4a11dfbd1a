package health

import "slices"

// transitions are the states that may follow each (seed 004, Server Lifecycle State Machine).
var transitions = map[State][]State{
	Disconnected: {Connecting},
	Connecting:   {Connected, Errored},
	Connected:    {Disconnected, Degraded, Errored},
	Degraded:     {Connected, Errored},
	Errored:      {Connecting},
}

// way returns the states through which a server comes from one to another, the other included: the fewest. A call may be the first to find out
// that a server answers, which nobody has tried to connect before.
func way(from, to State) []State {
	if from == to {
		return nil
	}
	ways, seen := [][]State{{from}}, []State{from}
	for len(ways) > 0 {
		at := ways[0]
		ways = ways[1:]
		for _, next := range transitions[at[len(at)-1]] {
			if next == to {
				return append(at[1:], to)
			}
			if !slices.Contains(seen, next) {
				seen, ways = append(seen, next), append(ways, append(slices.Clone(at), next))
			}
		}
	}
	return nil
}
