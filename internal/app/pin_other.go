//go:build !linux

package app

// pinScheduler is for Linux alone.
func pinScheduler() (stir, stop func()) { return nil, func() {} }
