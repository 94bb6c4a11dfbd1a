//go:build unix

package mock

import "syscall"

// ownGroup leaves the process group of the client, which the tester kills after the exit of the client: that would look like an action of
// the client. A process that is the leader of its group keeps it.
func ownGroup() { _ = syscall.Setpgid(0, 0) }
