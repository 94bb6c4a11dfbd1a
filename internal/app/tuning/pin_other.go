//go:build !linux

package tuning

// PinScheduler does nothing: only Linux has scheduler pinning.
func PinScheduler() (stir, stop func()) { return nil, func() {} }
