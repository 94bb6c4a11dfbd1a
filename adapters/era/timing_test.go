package era

import "time"

// Times and bounds of the packages below that the tests depend on.
const (
	dedupTime     = 50 * time.Millisecond // within which notices in two sessions of one client are taken for one
	backoffLeast  = time.Second
	backoffMost   = 40 * time.Second
	maxSubscribed = 1024
	maxNotices    = 2 * maxSubscribed
	pollFailures  = 5 // consecutive failures to poll a task that end its call
)
