package health

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/policies/internal/policytest"
)

var allStates = []State{Disconnected, Connecting, Connected, Degraded, Errored}

// Seed 004, Valid Transitions: each pair of states, whether it is a step, and the way if it is none.
func TestTransitions(t *testing.T) {
	ways := map[State]map[State][]State{
		Disconnected: {Connecting: {Connecting}, Connected: {Connecting, Connected}, Degraded: {Connecting, Connected, Degraded}, Errored: {Connecting, Errored}},
		Connecting:   {Disconnected: {Connected, Disconnected}, Connected: {Connected}, Degraded: {Connected, Degraded}, Errored: {Errored}},
		Connected:    {Disconnected: {Disconnected}, Connecting: {Disconnected, Connecting}, Degraded: {Degraded}, Errored: {Errored}},
		Degraded:     {Disconnected: {Connected, Disconnected}, Connecting: {Errored, Connecting}, Connected: {Connected}, Errored: {Errored}},
		Errored:      {Disconnected: {Connecting, Connected, Disconnected}, Connecting: {Connecting}, Connected: {Connecting, Connected}, Degraded: {Connecting, Connected, Degraded}},
	}
	for _, from := range allStates {
		for _, to := range allStates {
			got, want := way(from, to), ways[from][to]
			if len(got) != len(want) {
				t.Errorf("from %s to %s by %v, want %v", from, to, got, want)
				continue
			}
			for i := range got {
				if got[i] != want[i] {
					t.Errorf("from %s to %s by %v, want %v", from, to, got, want)
				}
			}
		}
	}
}

// Whatever happens, a server passes from state to state by valid steps only, each from where the one before has led.
func TestStepsAreValid(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			k := newMonitorRig(t, nil)
			for range 60 {
				switch rnd.IntN(6) {
				case 0:
					k.find(nil, false)
				case 1:
					k.find(policytest.BadGateway(), false)
				case 2:
					k.find(nil, true)
				case 3:
					_ = k.call(nil)
				case 4:
					_ = k.call(policytest.BadGateway())
				case 5:
					k.Tried(time.Now(), nil)
				}
				time.Sleep(time.Duration(rnd.IntN(int(40 * time.Second))))
			}
			k.Close()
			at := Disconnected
			for i, c := range k.changes {
				valid := c.From == at
				for _, to := range transitions[c.From] {
					if to == c.To {
						at = to
					}
				}
				if !valid || at != c.To {
					t.Fatalf("seed %d, change %d: from %s to %s", seed, i, c.From, c.To)
				}
			}
		})
	}
}
