//go:build !unix

package lines

// mapMemory has nothing to offer: large lines are plain memory.
func mapMemory(int) []byte { return nil }

func unmapMemory([]byte) {}
