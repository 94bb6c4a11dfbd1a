// Package checks lists the checks of servers and holds those of authorization. Each check is one statement of a revision that can be
// observed from outside; All returns them in the order in which reports show them.
//
// modern, legacy and rest hold the checks of one kind of server each, a file for each area, with the helpers that only they use;
// checkutil has what they share. A check asks for one thing, so that its name says what is wrong. Where a server may behave in several
// ways, all of them pass. A check judges only what the specification binds: nothing that a server does where it is silent is a failure.
package checks
