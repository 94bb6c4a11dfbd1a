package httpserver

import "errors"

var (
	// ErrClosed is returned by a Stream after its end.
	ErrClosed = errors.New("httpd: closed")
	// ErrLeft is the reason of a Stream whose client closed its side or reset the connection.
	ErrLeft = errors.New("httpd: the peer left")
	// ErrSlowReader is the reason of a Stream whose client read too slowly for its queue.
	ErrSlowReader = errors.New("httpd: the peer does not read")
	// ErrShutdown is the reason of a Stream ended by Server.Shutdown.
	ErrShutdown = errors.New("httpd: the server shuts down")
	// ErrTooManyStreams is returned by OpenStream when Options.MaxStreams streams are open.
	ErrTooManyStreams = errors.New("httpd: too many streams")
	// ErrForeignRequest is returned for a request that did not come through a Server of this package.
	ErrForeignRequest = errors.New("httpd: not a connection of this server")
)
