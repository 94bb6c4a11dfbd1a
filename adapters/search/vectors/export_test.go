package vectors

// Rows returns how many rows a store has, those of removed tools included.
func Rows(m *Memory) (n int) {
	for _, b := range m.now.Load().blocks {
		n += len(b.rows)
	}
	return n
}
