//go:build !linux

package app

// keepAwake is for Linux alone.
func keepAwake() (stir, stop func()) { return nil, func() {} }
