// Package era lets parties on either side of 2026-07-28 reach one another.
//
// An Upstream is one server. Four ways lead to it, by the client's era and the server's: a modern client's exchange passes to a modern
// server (pass.go) and is downgraded to a legacy one (downgrade.go); a legacy client's exchange is upgraded to a modern server
// (upgrade.go) and relayed to a legacy one (package relay). Between parties of one era the bytes pass as they came.
//
// What the ways need is in packages below, which do not know them: the server's profile (probe), sessions, links and processes
// (sessions), questions of legacy servers (input), change notices (subscriptions), tasks (tasks), and the translation of single messages
// (translate).
//
// A modern server's questions end a call; they are put to the legacy client, and the call is made again with the answers (ask.go).
//
// The package speaks no transport: it reaches servers through the links of package transport.
package era
