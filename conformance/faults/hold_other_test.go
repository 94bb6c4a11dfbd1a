//go:build !linux

package faults

import "testing"

// hold does nothing: elsewhere a port that is bound twice is bound twice for everybody.
func hold(*testing.T) (addr string) { return "127.0.0.1:0" }
