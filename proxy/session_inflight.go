package proxy

// inFlight holds the newest request in flight of each id. It has no map while there is at most one, as in most sessions. The session's
// lock guards it.
type inFlight struct {
	one  *Exchange            // under its id; nil: none
	rest map[string]*Exchange // the others; nil if there are none
}

func (f *inFlight) any() bool { return f.one != nil || len(f.rest) > 0 }

func (f *inFlight) newest(id []byte) *Exchange {
	if f.one != nil && string(f.one.id) == string(id) {
		return f.one
	}
	return f.rest[string(id)]
}

func (f *inFlight) set(ex *Exchange) {
	switch {
	case f.one != nil && string(f.one.id) == string(ex.id), f.one == nil && f.rest[string(ex.id)] == nil:
		f.one = ex
	default:
		if f.rest == nil {
			f.rest = make(map[string]*Exchange)
		}
		f.rest[string(ex.id)] = ex
	}
}

func (f *inFlight) remove(id []byte) {
	if f.one != nil && string(f.one.id) == string(id) {
		f.one = nil
		return
	}
	if delete(f.rest, string(id)); len(f.rest) == 0 {
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
