package proxy

import "time"

// Clock shares readings of the clock among the policies of one exchange: a reading costs more than most of what a policy does. Only the
// goroutine that serves the exchange may use it.
type Clock struct {
	passing time.Time     // zero: to be read
	began   time.Time     // of what lasted for elapsed
	lasted  time.Duration // 0: not measured yet
}

// Now returns the time at which the exchange passes its policies.
func (c *Clock) Now() time.Time {
	if c.passing.IsZero() {
		c.passing = time.Now()
	}
	return c.passing
}

// Waited makes Now read the clock again. It must be called after an exchange has waited, and before it is sent again.
func (c *Clock) Waited() { c.passing = time.Time{} }

// Since returns how long an exchange took that began at the given time and has just been answered. The first call reads the clock.
func (c *Clock) Since(began time.Time) time.Duration {
	if c.lasted == 0 || !c.began.Equal(began) {
		c.lasted, c.began = time.Since(began), began
	}
	return c.lasted
}
