package http1

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
)

// ErrBodyTooLarge is returned by a Body that exceeds the limit of LimitRequest.
var ErrBodyTooLarge = errors.New("httpd: body too large")

// MalformedError is a violation of the HTTP grammar (RFC 9112) in the part What, by the peer or by the caller.
type MalformedError struct{ What string }

func (e *MalformedError) Error() string { return "httpd: malformed " + e.What }

// ResponseHeader is What of a TooLargeError of a response's head.
const ResponseHeader = "response header"

// TooLargeError is a part of a message, What ("response body", [ResponseHeader]), that exceeds Limit bytes.
type TooLargeError struct {
	What  string
	Limit int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("httpd: %s exceeds %d bytes", e.What, e.Limit)
}

// UnexpectedEOF makes io.EOF inside a message io.ErrUnexpectedEOF.
func UnexpectedEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// IsTimeout reports whether err only says that a deadline has passed.
func IsTimeout(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout() || errors.Is(err, os.ErrDeadlineExceeded)
}
