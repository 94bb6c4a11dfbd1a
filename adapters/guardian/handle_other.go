//go:build !unix

package guardian

import "context"

type impl struct{}

// Prestart does nothing here.
func (g *Guardian) Prestart() {}

// Start returns ErrUnavailable here.
func (g *Guardian) Start(context.Context, Spec) (*Child, error) { return nil, ErrUnavailable }

// Close does nothing here.
func (g *Guardian) Close() {}

// Child is never made here.
type Child struct{}

// PID is the child's process id.
func (c *Child) PID() int { return 0 }

// Exited is closed when the child has exited.
func (c *Child) Exited() <-chan struct{} { return nil }

// Exit tells how the child ended.
func (c *Child) Exit() Exit { return Exit{} }

// Gone is closed when nobody of the family is left.
func (c *Child) Gone() <-chan struct{} { return nil }

// Terminate asks the family to end.
func (c *Child) Terminate() {}

// Kill ends the family.
func (c *Child) Kill() {}
