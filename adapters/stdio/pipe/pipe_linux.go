package pipe

import "golang.org/x/sys/unix"

// grow sets a pipe's capacity to size bytes, or to the largest fraction that fs.pipe-max-size and the user's limit
// permit.
func grow(fd, size int) {
	for ; size > capacity; size /= 2 {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, size); err == nil {
			return
		}
	}
}
