//go:build !linux

package httpd

// Where there is no epoll, a held stream keeps the system's connection.

func (c *conn) chill()                                    {}
func (c *conn) thaw() error                               { return nil }
func (c *conn) writeCold(*framing) (cold bool, err error) { return false, nil }
func (c *conn) closeCold() bool                           { return false }
