package reference

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

const pipeBuffer = 64 << 10

// ServeEcho is an MCP server over stdio: it answers the lines of in on out until in ends. A dual one is modern until it is initialized.
// Answers are flushed when no further request is waiting.
func ServeEcho(in io.Reader, out io.Writer, era Era) error {
	reader, writer := bufio.NewReaderSize(in, pipeBuffer), bufio.NewWriterSize(out, pipeBuffer)
	modern := era != Legacy
	var line, answer []byte
	for {
		part, err := reader.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && len(line) <= maxBody:
			continue
		case err == io.EOF:
			return writer.Flush()
		case err != nil:
			return fmt.Errorf("reference: read: %w", err)
		}
		r := parse(line)
		if r.id != nil {
			if string(r.method) == "initialize" && era == Dual {
				modern = false
			}
			answer, _ = appendAnswer(answer[:0], &r, modern)
			if _, err = writer.Write(append(answer, '\n')); err != nil {
				return fmt.Errorf("reference: write: %w", err)
			}
		}
		line = line[:0]
		if reader.Buffered() > 0 {
			continue
		}
		if err = writer.Flush(); err != nil {
			return fmt.Errorf("reference: write: %w", err)
		}
	}
}
