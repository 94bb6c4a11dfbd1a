//go:build !linux

package drive

import "time"

func punctual() {}

func sleep(d time.Duration) { time.Sleep(d) }
