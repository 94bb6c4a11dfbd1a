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

// Unread returns how many bytes the child has not read yet; known is false if the system does not tell.
func (w *Writer) Unread() (n int, known bool) {
	err := w.raw.Control(func(fd uintptr) {
		var err error
		n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		known = err == nil
	})
	return n, known && err == nil
}
