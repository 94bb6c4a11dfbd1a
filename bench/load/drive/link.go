package drive

import (
	"context"
	"time"
)

// link is one client's connection to the server. It is used by one goroutine at a time, except hurry.
type link interface {
	keeper
	// do makes the call with these digits and returns the message that answers it, which is valid until the next call, and the status of
	// the response.
	do(call int, digits []byte, deadline time.Time) (message []byte, status int, err error)
	// hurry ends calls in flight by the deadline.
	hurry(deadline time.Time)
}

// keeper keeps a link fit for calls.
type keeper interface {
	// open connects, again if necessary, and opens the session.
	open(ctx context.Context) error
	// mend prepares the link for the next call after one that ended with err.
	mend(ctx context.Context, err error) error
	// close ends the session, if possible, and closes the connection.
	close()
}

const statusOK = 200

// newLinks makes a link for each connection. stop is called after they are closed.
func (d *driver) newLinks() (links []link, stop func()) {
	p := d.plan
	stop = func() {}
	if p.Face.Stdio() {
		children := make([]*child, p.Processes)
		for i := range children {
			children[i] = &child{plan: p, driver: d}
		}
		for i := range p.Connections {
			links = append(links, newLineLink(children[i%p.Processes], p.requests(session{}, "")))
		}
		d.children = children
		return links, func() {
			for _, c := range children {
				c.stop()
			}
		}
	}
	for i := range p.Connections {
		l := newHTTPLink(d)
		if len(p.Paths) > 0 {
			l.base = p.Paths[i%len(p.Paths)]
		}
		links = append(links, l)
	}
	return links, stop
}
