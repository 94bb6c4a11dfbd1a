// Package mutants shows that the checks see what they are for. Between the checks and a sound server stands a middlebox that breaks one
// thing: it changes what the server is told, or what the server says. A mutant names the check that has to catch it, and the sound
// server has to pass all checks. A check for a MUST that no mutant needs is a mistake as well.
//
// It has tests only.
package mutants
