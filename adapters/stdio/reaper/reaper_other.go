//go:build !unix

package reaper

type impl struct{}

// Main returns 2: there is no reaper on this system.
func Main() int { return 2 }

// Prelaunch does nothing on this system.
func Prelaunch() {}

// Prestart does nothing on this system.
func (r *Reaper) Prestart() {}

// Close does nothing on this system.
func (r *Reaper) Close() {}
