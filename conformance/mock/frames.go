package mock

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
)

// What goes between a mock server that a client has started and the process that judges: a kind, the length of what follows as four
// bytes, and that.
const (
	frameInput  = 'i' // the client has written this
	frameEnd    = 'e' // the client has closed the input
	frameSignal = 's' // the name of a signal that came
	frameBye    = 'b' // the process ends by itself

	frameOutput = 'o' // to be written to the output
	frameErrors = 'r' // to be written to the error output
	frameLeave  = 'x' // the process is to end, with this code
)

// maxFrame is the most that one frame carries.
const maxFrame = 64 << 10

var errFrame = errors.New("mock: a frame that is longer than any")

// writeFrames sends data in as many frames of a kind as it takes, one at least.
func writeFrames(w io.Writer, kind byte, data []byte) error {
	for {
		n := min(len(data), maxFrame)
		frame := append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(n)), data[:n]...)
		if _, err := w.Write(frame); err != nil {
			return err
		}
		if data = data[n:]; len(data) == 0 {
			return nil
		}
	}
}

func readFrame(r *bufio.Reader) (kind byte, data []byte, err error) {
	var head [5]byte
	if _, err = io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, errFrame
	}
	data = make([]byte, n)
	_, err = io.ReadFull(r, data)
	return head[0], data, err
}
