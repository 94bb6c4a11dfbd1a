//go:build !unix

package reaper

import "context"

type impl struct{}

// Main returns 2: there is no reaper on this system.
func Main() int { return 2 }

// Prelaunch does nothing on this system.
func Prelaunch() {}

// Prestart does nothing on this system.
func (r *Reaper) Prestart() {}

// Start returns ErrUnavailable on this system.
func (r *Reaper) Start(context.Context, Spec) (*Child, error) { return nil, ErrUnavailable }

// Close does nothing on this system.
func (r *Reaper) Close() {}

// Child does not exist on this system.
type Child struct{}

// PID is the child's process id.
func (c *Child) PID() int { return 0 }

// Exited is closed when the child has exited.
func (c *Child) Exited() <-chan struct{} { return nil }

// Exit tells how the child ended.
func (c *Child) Exit() Exit { return Exit{} }

// Gone is closed when the process tree is empty.
func (c *Child) Gone() <-chan struct{} { return nil }

// Terminate sends SIGTERM to the process tree.
func (c *Child) Terminate() {}

// Kill sends SIGKILL to the process tree.
func (c *Child) Kill() {}
