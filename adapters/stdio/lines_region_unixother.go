//go:build unix && !linux

package stdio

const mapNoReserve = 0
