package socket

import (
	"io"
	"net"
)

// ends returns a reader and a writer for a connection.
func ends(conn net.Conn) (io.Reader, io.Writer) { return conn, conn }
