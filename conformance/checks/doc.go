// Package checks has the checks of servers: each a statement of a revision that can be seen from outside. All gives them.
//
// A file has the checks of one area, and the helpers that only they use; say.go has what all use. A check asks for one thing, so that
// its name says what is wrong. What a server may do in several ways is accepted in all of them. A check judges only what the
// specification binds: what servers were seen to do where it is silent is never a failure.
package checks
