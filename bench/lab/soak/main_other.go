//go:build !linux

// Command soak needs Linux.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "soak: this needs Linux: it counts processes and files in /proc")
	os.Exit(1)
}
