//go:build !unix

package lines

// mapMemory returns nil: large lines use ordinary memory here.
func mapMemory(int) []byte { return nil }

func unmapMemory([]byte) {}
