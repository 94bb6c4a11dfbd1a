//go:build unix

package mock

import "syscall"

// ownGroup leaves the process group of the client: what is left of that is swept away when the client has ended, which would look as
// if the client had done so. A client that has given the process a group of its own keeps it.
func ownGroup() { _ = syscall.Setpgid(0, 0) }
