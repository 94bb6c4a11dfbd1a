//go:build !linux

package main

// keepAwake is for Linux alone.
func keepAwake() (stir, stop func()) { return nil, func() {} }
