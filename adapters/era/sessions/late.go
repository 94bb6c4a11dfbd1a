package sessions

import (
	"slices"
	"sync"

	"dragoman/proxy"
)

// about returns what a call that may be asked calls: its method, and the tool, prompt or resource.
func about(ex *proxy.Exchange) string {
	m := &ex.Msg
	name := m.Name
	if !name.Present() {
		name = m.URI
	}
	return string(append(append(slices.Clone(m.Text(m.Method)), ' '), m.Text(name)...))
}

// lateAskers holds what was seen to ask later than headStart (true), or is suspected to (false), by Turn.about. It is safe for concurrent use.
type lateAskers struct {
	mu  sync.Mutex
	all map[string]bool
}

// lateMost bounds the entries of lateAskers, and lateName the bytes of each.
const (
	lateMost = 1024
	lateName = 256
)

func (l *lateAskers) add(about string, certain bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if about == "" || len(about) > lateName || len(l.all) >= lateMost {
		return
	}
	if l.all == nil {
		l.all = make(map[string]bool)
	}
	l.all[about] = certain || l.all[about]
}

func (l *lateAskers) has(about string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.all[about]
	return ok
}

func (l *lateAskers) acquit(about string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if certain, ok := l.all[about]; ok && !certain {
		delete(l.all, about)
	}
}
