package mock

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
)

// Frames between a Relay and the process that judges: a kind, the length of the data in four bytes, and the data.
const (
	frameInput  = 'i' // the client has written this
	frameEnd    = 'e' // the client has closed the input
	frameSignal = 's' // the name of a signal that came
	frameBye    = 'b' // the process exits by itself

	frameOutput = 'o' // data for the output
	frameErrors = 'r' // data for the error output
	frameLeave  = 'x' // exit with this code
)

// maxFrame is the maximum size of the data of a frame.
const maxFrame = 64 << 10

var errFrame = errors.New("mock: a frame that is longer than any")

// writeFrames writes data in as many frames of a kind as needed, at least one.
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
