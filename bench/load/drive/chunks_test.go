package drive

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestChunks(t *testing.T) {
	f := func(in, want string, ok bool) {
		t.Helper()
		c := chunks{in: bufio.NewReader(iotest.OneByteReader(strings.NewReader(in)))}
		got, err := io.ReadAll(&c)
		if string(got) != want || ok != (err == nil) {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	f("3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n", "abc0123456789", true)
	f("0\r\n\r\n", "", true)
	f("3\r\nab", "ab", false)
	f("x\r\n", "", false)
	f("-1\r\n", "", false)
}
