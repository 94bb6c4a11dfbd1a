//go:build race

package stdio

const poisoned = true
