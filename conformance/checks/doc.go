// Package checks lists the checks of servers and has those of authorization. A check tests one statement of a revision that can be
// observed from outside. All returns the checks in the order of reports.
//
// modern, legacy and rest have the checks of one kind of server each, a file for each area, with the helpers that only they use; checkutil
// has the shared helpers. A check tests one thing, so that its name says what is wrong. If the specification allows several behaviours, all
// of them pass; where it is silent, nothing fails.
//
// A check of an absence does not rely on a clock if it can avoid it: it causes a later message on the same stream and waits for that.
package checks
