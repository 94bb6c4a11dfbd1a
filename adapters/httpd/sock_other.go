//go:build !unix

package httpd

import "syscall"

type sockState uint8

const (
	sockQuiet sockState = iota
	sockBytes
	sockClosed
)

const looks = false

// peeker cannot look here: an idle connection is taken to be alive, and IdleLimit alone keeps dead ones away.
type peeker struct{}

func newPeeker(syscall.RawConn) *peeker { return &peeker{} }
func (p *peeker) peek() sockState       { return sockQuiet }

// writeNow leaves everything to the waiting writer here.
func writeNow(syscall.RawConn, []byte) (n int, wait bool, err error) { return 0, true, nil }

func descriptors() int { return 0 }
