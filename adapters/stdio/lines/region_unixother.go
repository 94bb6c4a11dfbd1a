//go:build unix && !linux

package lines

const mapNoReserve = 0
