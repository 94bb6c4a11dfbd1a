//go:build unix && !linux

package process

const dieWithParent = false
