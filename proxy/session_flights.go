package proxy

// flights are a session's requests in flight: the newest of each id. Most sessions have one at a time, and an idle one none, for which no
// map is kept. The session's lock guards them.
type flights struct {
	id   string
	one  *Exchange            // under id; nil: none
	rest map[string]*Exchange // the others; nil if there are none
}

func (f *flights) any() bool { return f.one != nil || len(f.rest) > 0 }

func (f *flights) newest(id string) *Exchange {
	if f.one != nil && f.id == id {
		return f.one
	}
	return f.rest[id]
}

func (f *flights) set(id string, ex *Exchange) {
	switch {
	case f.one != nil && f.id == id, f.one == nil && f.rest[id] == nil:
		f.id, f.one = id, ex
	default:
		if f.rest == nil {
			f.rest = make(map[string]*Exchange)
		}
		f.rest[id] = ex
	}
}

func (f *flights) remove(id string) {
	if f.one != nil && f.id == id {
		f.id, f.one = "", nil
		return
	}
	if delete(f.rest, id); len(f.rest) == 0 {
		f.rest = nil
	}
}

// tickets gives one of each request, and of its repeats.
func (f *flights) tickets() []Ticket {
	all := f.one.appendAlike(nil)
	for _, ex := range f.rest {
		all = ex.appendAlike(all)
	}
	return all
}
