//go:build !race

package lines

// poisoned says that buffers are overwritten when they are given back. Under the race detector they are: whoever reads what he
// has not borrowed any more then fails in a test.
const poisoned = false
