package drive

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const maxChunkLine = 1 << 10

// chunks reads a chunked body (RFC 9112 §7.1) to its end, which is io.EOF. The error of a truncated body is io.ErrUnexpectedEOF.
type chunks struct {
	in   *bufio.Reader
	left int64
	err  error
}

func (c *chunks) Read(p []byte) (int, error) {
	if c.left == 0 && c.err == nil {
		c.err = c.next()
	}
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.in.Read(p[:min(int64(len(p)), c.left)])
	if c.left -= int64(n); err == nil && c.left == 0 {
		_, err = c.line() // the line end after a chunk's data
	}
	if c.err = err; err == io.EOF {
		c.err = io.ErrUnexpectedEOF
	}
	return n, nil
}

// next reads the size of a chunk. The last chunk ends the body; trailers are ignored.
func (c *chunks) next() error {
	line, err := c.line()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	size, _, _ := strings.Cut(line, ";")
	if c.left, err = strconv.ParseInt(strings.TrimSpace(size), 16, 64); err != nil || c.left < 0 {
		return fmt.Errorf("malformed chunk size %.80q", line)
	}
	if c.left == 0 {
		return io.EOF
	}
	return nil
}

func (c *chunks) line() (string, error) {
	line, err := c.in.ReadSlice('\n')
	if err == nil && len(line) > maxChunkLine {
		err = errors.New("chunk line too long")
	}
	return strings.TrimRight(string(line), "\r\n"), err
}
