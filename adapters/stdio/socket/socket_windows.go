package socket

import (
	"io"
	"net"
)

// ends are the two ways of a connection.
func ends(conn net.Conn) (io.Reader, io.Writer) { return conn, conn }
