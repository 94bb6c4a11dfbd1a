package sessions

import "time"

// Options say which clients share the sessions and processes of a server, and limit these.
type Options struct {
	Isolation  Isolation
	DeclareAll bool          // a legacy server is promised that it may ask anything
	Max        int           // pooled legacy sessions
	IdleTTL    time.Duration // a pooled session without calls for this long is closed; 0: never
	LeaseWait  time.Duration // how long a call waits for a session or a process that becomes free
	Processes  Processes     // ignored unless links are processes
}

// Processes limit the processes of one server.
type Processes struct {
	Max          int           // in all; 0: no limit
	Spares       int           // prewarmed processes among these
	PerPrincipal int           // of one principal; 0: no separate limit
	IdleExit     time.Duration // a process without calls for this long is stopped; 0: IdleTTL for pooled ones, others stay
}

// idle returns how long a pooled session stays open without calls; 0: without limit.
func (o *Options) idle() time.Duration {
	if o.Processes.IdleExit > 0 {
		return o.Processes.IdleExit
	}
	return o.IdleTTL
}
