// Package era connects clients and servers on either side of revision 2026-07-28.
//
// An Upstream is one server. The eras of client and server select one of four ways: a modern client's exchange passes to a modern server
// (pass.go) or is downgraded for a legacy one (downgrade.go); a legacy client's exchange is upgraded for a modern server (upgrade.go) or
// relayed to a legacy one (package relay). Between parties of one era, messages pass unchanged.
//
// The packages below do not depend on the ways: the server's profile (probe), sessions, links and processes (sessions), servers'
// questions (input), change notices (subscriptions), tasks (tasks), and the translation of single messages (translate).
//
// The package contains no transport: it reaches servers through the links of package transport.
package era
