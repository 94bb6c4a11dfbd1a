//go:build !linux

package app

// pinScheduler does nothing: only Linux has scheduler pinning.
func pinScheduler() (stir, stop func()) { return nil, func() {} }
