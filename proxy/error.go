package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"syscall"

	"dragoman/proxy/wire"
)

// ErrCancelled is the cause of an exchange whose client has left or has cancelled it.
var ErrCancelled = errors.New("proxy: cancelled by the client")

// ErrDraining is the cause of a listen that ends because the proxy is about to stop.
var ErrDraining = errors.New("proxy: draining")

// Error is an error that a client may see.
type Error struct {
	Fault
	Message    string
	Data       []byte // raw JSON for error.data; nil: made from the fault if Code is CodeInternal
	RetryAfter int    // seconds; 0: unknown
	Challenge  string // WWW-Authenticate for clients over HTTP, with the status of the row; empty: none
	Cause      error  // for the log, never for the client
}

// Errf returns an Error of a row of the table. A %w operand becomes its Cause, too. Texts and errors among args may be a peer's: the
// message has them as [wire.Shown] does.
func Errf(f Fault, format string, args ...any) *Error {
	for i, arg := range args {
		switch a := arg.(type) {
		case string:
			args[i] = shown(a)
		case []byte:
			args[i] = shown(a)
		case error:
			args[i] = shownError{a}
		}
	}
	err := fmt.Errorf(format, args...)
	e := &Error{Fault: f, Message: err.Error()}
	if cause, ok := errors.Unwrap(err).(shownError); ok {
		e.Cause = cause.error
	}
	return e
}

// NewError returns an Error with a message that is complete: of our own, or a server's, which goes to the client as it is.
func NewError(f Fault, message string) *Error { return &Error{Fault: f, Message: message} }

// Unsent returns the error of a message that was not sent because its link had ended with err. Another link may take the message.
func Unsent(err error) *Error {
	return &Error{Fault: SessionLost, Message: AsError(err).Message, Cause: err}
}

// Ended returns the error that ended a link if err is one of [Unsent], else err. It is for those who have no other link to try.
func Ended(err error) error {
	var e, end *Error
	if errors.As(err, &e) && e.Name == SessionLost.Name && errors.As(e.Cause, &end) {
		return end
	}
	return err
}

// shown is a text from outside. Quoted, it is escaped once.
type shown string

// Format implements fmt.Formatter.
func (s shown) Format(f fmt.State, verb rune) {
	text := string(s)
	switch {
	case verb == 'q' && len(text) > wire.MaxShown:
		text = strconv.Quote(text[:wire.MaxShown]) + "… (" + strconv.Itoa(len(text)) + " bytes)"
	case verb == 'q':
		text = strconv.Quote(text)
	case verb == 'x':
		text = fmt.Sprintf("%x", text[:min(len(text), wire.MaxShown)])
	default:
		text = wire.Shown(text)
	}
	_, _ = io.WriteString(f, text)
}

// shownError is an error whose text may have parts from outside.
type shownError struct{ error }

// Error implements error.
func (e shownError) Error() string { return wire.ShownText(e.error.Error()) }

// Unwrap returns the error.
func (e shownError) Unwrap() error { return e.error }

// Error implements error.
func (e *Error) Error() string { return e.Name + ": " + e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// AppendJSON appends the error object: code, message, and data. Errors with CodeInternal have data.code and data.retryable, so that a
// program can decide without the message.
func (e *Error) AppendJSON(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"code":`...), int64(e.Code), 10)
	dst = wire.AppendText(append(dst, `,"message":`...), e.Message)
	switch {
	case e.Data != nil:
		dst = append(append(dst, `,"data":`...), e.Data...)
	case e.Code == CodeInternal:
		dst = wire.AppendText(append(dst, `,"data":{"code":`...), e.Name)
		dst = strconv.AppendBool(append(dst, `,"retryable":`...), e.Retryable)
		if e.RetryAfter > 0 {
			dst = strconv.AppendInt(append(dst, `,"retryAfter":`...), int64(e.RetryAfter), 10)
		}
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// AsError returns the Error in err, or one without internal details.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	if errors.Is(err, ErrCancelled) {
		return &Error{Fault: Cancelled, Message: "the request was cancelled", Cause: err}
	}
	if errors.Is(err, ErrDraining) {
		return &Error{Fault: ShuttingDown, Message: "the proxy is shutting down", Cause: err}
	}
	return &Error{Fault: Internal, Message: "internal error; the log of Dragoman has the cause", Cause: err}
}

// Gist says what kind of error err is, for others than the caller whose request it answers: the row of the table, and the HTTP
// status or the system's error behind it. It has nothing that a peer has written, which may be about that caller.
func Gist(err error) string {
	var e *Error
	var status interface{ HTTPStatus() int }
	var system syscall.Errno
	said := ""
	if errors.As(err, &e) {
		said = e.Name
	}
	switch {
	case errors.As(err, &status):
		said = join(said, "HTTP "+strconv.Itoa(status.HTTPStatus()))
	case errors.As(err, &system):
		said = join(said, system.Error())
	case said == "" && errors.Is(err, context.DeadlineExceeded):
		said = UpstreamTimeout.Name
	case said == "":
		said = Internal.Name
	}
	return said
}

func join(name, detail string) string {
	if name == "" {
		return detail
	}
	return name + ", " + detail
}

// Told returns err as it may be told to another caller than the one whose request it answers: of the same row, with the gist in place
// of the message.
func Told(err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	told := *e
	told.Message, told.Data, told.Challenge, told.Cause = "a request of another caller, for whose outcome this one waited, has failed: "+Gist(err), nil, "", err
	return &told
}

// IsFault reports whether err is an Error of one of the rows.
func IsFault(err error, rows ...Fault) bool {
	var e *Error
	return errors.As(err, &e) && slices.ContainsFunc(rows, func(f Fault) bool { return f.Name == e.Name })
}
