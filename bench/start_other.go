//go:build !linux

package main

import "time"

func shortSleep() { time.Sleep(100 * time.Microsecond) }
