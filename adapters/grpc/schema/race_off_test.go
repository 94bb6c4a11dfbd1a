//go:build !race

package schema

const messages = 10_000
