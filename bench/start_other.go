//go:build !linux

package main

import "time"

func nap() { time.Sleep(100 * time.Microsecond) }
