//go:build linux

package main

import (
	"math/rand/v2"

	"dragoman/bench/lab/soak/child"
	"dragoman/bench/lab/soak/client"
)

// journey is one way to come and to leave.
type journey struct {
	name   string
	weight int
	run    func(a *actor) error
	// when says whether clients visit a server in this way; nil: always.
	when func(s *server) bool
}

func mayAsk(s *server) bool       { return s.isolation == "" && s.sure() } // clients that share a session cannot be asked
func sure(s *server) bool         { return s.sure() }
func huge(s *server) bool         { return s.huge }
func readsNothing(s *server) bool { return s.role.Kind == child.NeverRead || s.role.Kind == child.Hang }
func mayAskLegacy(s *server) bool { return mayAsk(s) && !s.role.Modern }

// journeys lists them all.
func journeys() []journey {
	legacy, sse := (*actor).openLegacy, (*actor).openSSE
	return append(polite(),
		journey{name: "abandon", weight: 6, run: with(legacy, (*actor).abandon)},
		journey{name: "handshake", weight: 2, run: with((*actor).beginLegacy, (*actor).handshake)},
		journey{name: "cut", weight: 4, run: with(legacy, cut)},
		journey{name: "cancel", weight: 2, run: with(legacy, (*actor).cancel)},
		journey{name: "stream", weight: 3, run: with(legacy, (*actor).stream)},
		journey{name: "unread", weight: 1, run: with(legacy, (*actor).unread), when: sure},
		journey{name: "half", weight: 2, run: with(legacy, half)},
		journey{name: "asked", weight: 2, run: with(legacy, (*actor).asked), when: mayAskLegacy},
		journey{name: "flood", weight: 2, run: with(legacy, (*actor).flood), when: readsNothing},
		journey{name: "sse-cut", weight: 3, run: with(sse, cut)},
		journey{name: "sse-half-open", weight: 1, run: (*actor).sseHalfOpen},
		journey{name: "sse-unread", weight: 1, run: with(sse, (*actor).sseUnread), when: sure},
		journey{name: "modern-cut", weight: 4, run: with((*actor).openModernEither, cut)},
		journey{name: "modern-half", weight: 1, run: with((*actor).openModern, half)},
		journey{name: "modern-suspend", weight: 3, run: with((*actor).openModernAsked, (*actor).modernSuspend), when: mayAsk},
		journey{name: "modern-listen", weight: 2, run: with((*actor).openModern, (*actor).modernListen), when: sure},
		journey{name: "modern-unread", weight: 1, run: with((*actor).openModern, (*actor).modernUnread), when: sure},
		journey{name: "huge", weight: 3, run: with((*actor).openModern, (*actor).huge), when: huge},
	)
}

// polite lists the journeys of clients that do as they should.
func polite() []journey {
	return []journey{
		{name: "legacy", weight: 3, run: with((*actor).openLegacy, (*actor).legacy)},
		{name: "legacy-many", weight: 1, run: with((*actor).openLegacy, (*actor).legacyMany)},
		{name: "sse", weight: 2, run: with((*actor).openSSE, (*actor).sse)},
		{name: "modern", weight: 4, run: with((*actor).openModern, (*actor).modern)},
		{name: "modern-asked", weight: 1, run: with((*actor).openModernAsked, (*actor).modernAsked), when: mayAsk},
	}
}

// with makes a journey of a visit: it opens a client, and leaves after the visit.
func with[C interface{ Leave() }](open func(*actor) (C, error), visit func(*actor, C) error) func(*actor) error {
	return func(a *actor) error {
		c, err := open(a)
		if err != nil {
			return err
		}
		defer c.Leave()
		return visit(a, c)
	}
}

// cut leaves in the middle of a call.
func cut[C interface {
	Begin(call client.Call) (id string, err error)
}](a *actor, c C) error {
	_, err := c.Begin(a.long())
	return a.linger(err, moment)
}

// half sends half a call and leaves.
func half[C interface{ BeginHalf(call client.Call) error }](a *actor, c C) error {
	return a.linger(c.BeginHalf(a.plain()), moment)
}

// fits says whether clients visit a server in this way.
func (j *journey) fits(s *server) bool { return j.when == nil || j.when(s) }

// pick chooses a journey to the server by weight.
func pick(all []journey, s *server, rng *rand.Rand) *journey {
	total := 0
	for i := range all {
		if all[i].fits(s) {
			total += all[i].weight
		}
	}
	n := rng.IntN(total)
	for i := range all {
		if all[i].fits(s) {
			if n -= all[i].weight; n < 0 {
				return &all[i]
			}
		}
	}
	return &all[0] // cannot be reached
}
