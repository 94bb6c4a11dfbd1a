//go:build unix && !linux

package stdio

const dieWithParent = false
