// Package mutants tests the checks. A middlebox between the checks and a sound server adds one fault: it changes the requests or the
// messages of the server. A mutant names the check that must catch its fault; the sound server must pass all checks. Every check of a MUST
// needs a mutant.
//
// It has tests only.
package mutants
