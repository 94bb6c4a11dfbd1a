// Package rules holds what the specification says that does not depend on a server or a client at hand: its revisions and what
// came and went with each, the methods of either era, the envelope of a modern request, the capabilities that let a server ask,
// and the notifications of changes. A new revision is a row in rules.go; no other package compares revisions.
//
// The package has no state.
package rules
