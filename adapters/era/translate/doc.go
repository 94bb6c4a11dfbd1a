// Package translate translates messages between the eras: capabilities, requests, results, errors and the questions of servers. It
// depends on the message and the client's revision only and has no state.
//
// Most messages need few edits, and large ones must not be parsed again for them: places.go edits members at the positions that the
// scan found (StampPlain, the fast path of LegacyResult, Strip).
package translate
