//go:build !linux

package netpoll

import (
	"sync/atomic"
	"syscall"
)

// Without epoll a socket keeps the runtime's connection, and neither congestion control nor acknowledgements can be chosen.

// Detach does nothing.
func (s *Socket) Detach(*atomic.Bool) {}

// Attach reports that there is nothing to attach.
func (s *Socket) Attach() (made bool, err error) { return false, nil }

// Detached reports false.
func (s *Socket) Detached() bool { return false }

// CloseDetached reports false.
func (s *Socket) CloseDetached() bool { return false }

func (s *Socket) writeDetached(*Parts) (detached bool, err error) { return false, nil }

// LoopbackControl does nothing.
func LoopbackControl(string, string, syscall.RawConn) error { return nil }

// QuickAck does nothing here.
type QuickAck struct{}

// NewQuickAck makes a QuickAck.
func NewQuickAck(syscall.RawConn) *QuickAck { return &QuickAck{} }

// Now does nothing.
func (q *QuickAck) Now() {}
