//go:build !unix

package mock

// ownGroup does nothing where there are no process groups.
func ownGroup() {}
