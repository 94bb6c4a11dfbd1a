//go:build race

package lines

const poisoned = true
