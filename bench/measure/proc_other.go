//go:build !linux

package measure

import (
	"errors"
	"syscall"
	"time"
)

// errNotHere is the error of figures that exist on Linux only.
var errNotHere = errors.New("measure: CPU time and memory are read on Linux only")

func attributes() *syscall.SysProcAttr { return nil }

func killGroup(int) {}

// CPU is the CPU time of a process and of its descendants so far.
type CPU struct {
	Own, Children time.Duration
}

// Sub is the time between two readings.
func (c CPU) Sub(before CPU) CPU {
	return CPU{Own: c.Own - before.Own, Children: c.Children - before.Children}
}

// ReadCPU always fails on this system.
func ReadCPU(int) (CPU, error) { return CPU{}, errNotHere }

// ReadRSS always fails on this system.
func ReadRSS(int) (int64, error) { return 0, errNotHere }

// ReadOwn always fails on this system.
func ReadOwn(int) (time.Duration, error) { return 0, errNotHere }
