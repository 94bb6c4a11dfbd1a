package peer

import "sync"

// tail keeps the last lines of an output, at most most.
type tail struct {
	most int

	mu    sync.Mutex
	lines []string
}

func (t *tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lines = append(t.lines, line); len(t.lines) > t.most {
		t.lines = t.lines[1:]
	}
}

// last returns the kept lines.
func (t *tail) last() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.lines...)
}
