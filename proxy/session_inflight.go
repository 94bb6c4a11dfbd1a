package proxy

// inFlight holds the newest request in flight of each id. It has no map while there is at most one, as in most sessions. The session's
// lock guards it.
type inFlight struct {
	id   string
	one  *Exchange            // under id; nil: none
	rest map[string]*Exchange // the others; nil if there are none
}

func (f *inFlight) any() bool { return f.one != nil || len(f.rest) > 0 }

func (f *inFlight) newest(id string) *Exchange {
	if f.one != nil && f.id == id {
		return f.one
	}
	return f.rest[id]
}

func (f *inFlight) set(id string, ex *Exchange) {
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

func (f *inFlight) remove(id string) {
	if f.one != nil && f.id == id {
		f.id, f.one = "", nil
		return
	}
	if delete(f.rest, id); len(f.rest) == 0 {
		f.rest = nil
	}
}

// tickets returns tickets of all requests and their repetitions.
func (f *inFlight) tickets() []Ticket {
	all := f.one.appendAlike(nil)
	for _, ex := range f.rest {
		all = ex.appendAlike(all)
	}
	return all
}
