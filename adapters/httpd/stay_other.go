//go:build !linux

package httpd

// stay is nothing here: staying needs to be told that a peer has gone, and only Linux does so in time.
type stay struct{}

func (s *Server) stay(*conn, *talk) bool { return true }
func (y *stay) look([]byte) (int, error) { return 0, nil }
func (c *conn) hangUp() bool             { return false }
func (c *conn) wake()                    {}
