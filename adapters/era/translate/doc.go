// Package translate makes messages of one era into messages of the other: capabilities, requests, results, errors and the
// questions of servers. It decides by the message and the client's revision alone and has no state.
//
// Most messages need little, and large ones must not be walked for it: places.go edits them where the scan has found the members
// that go (StampPlain, the fast path of LegacyResult, Strip).
package translate
