package pipe

import "golang.org/x/sys/unix"

// grow sets a pipe's capacity in bytes, as far as fs.pipe-max-size and the user's limit permit.
func grow(fd, size int) {
	for ; size > capacity; size /= 2 {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, size); err == nil {
			return
		}
	}
}
