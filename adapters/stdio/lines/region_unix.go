//go:build unix

package lines

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// mapMemory reserves n bytes of address space, which become memory as they are touched; nil if the system refuses, or on
// 32-bit systems, where addresses are scarce.
func mapMemory(n int) []byte {
	if strconv.IntSize < 64 {
		return nil
	}
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|mapNoReserve)
	if err != nil {
		return nil
	}
	return b
}

// unmapMemory releases it. A later access ends the process instead of reading another message.
func unmapMemory(b []byte) { _ = unix.Munmap(b[:cap(b)]) } // fails only for what was not mapped
