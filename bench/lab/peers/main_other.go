//go:build !linux

// Command peers needs Linux.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "peers: this needs Linux: it counts processes and memory in /proc")
	os.Exit(1)
}
