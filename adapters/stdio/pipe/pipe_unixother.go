//go:build unix && !linux

package pipe

// grow does nothing, because pipes have a fixed size here.
func grow(int, int) {}

// Unread returns how many bytes the child has not read yet; known is false if the system does not tell.
func (w *Writer) Unread() (n int, known bool) { return 0, false }
