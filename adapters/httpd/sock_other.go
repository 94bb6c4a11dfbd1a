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

// writeList leaves everything to the waiting writer here.
func writeList(int, [][]byte) (n int, err error) { return 0, nil }

func descriptors() int { return 0 }
