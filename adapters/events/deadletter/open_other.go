//go:build !unix

package deadletter

const notFollowed = 0
