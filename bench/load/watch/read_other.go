//go:build !linux

package watch

// Read always fails on this system.
func Read([]int) (Use, error) { return Use{}, ErrNotHere }

// PIDOfPort always fails on this system.
func PIDOfPort(int) (int, error) { return 0, ErrNotHere }
