package mock

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// RelayWord is the command of a mock server; the address of the process that judges follows it.
const RelayWord = "conformance-mock"

// RelayCalled reports whether this process was started as a mock server by the client under test: `dragoman conformance-mock ADDRESS`.
func RelayCalled(args []string) bool { return len(args) == 3 && args[1] == RelayWord }

// Relay is the mock server that a client under test starts. It forwards its input, the end of it and its signals to the process that judges,
// at the Unix socket address, and writes what that sends to out and errs. It returns the exit code. The goroutine that reads in ends with
// the process.
func Relay(address string, in io.Reader, out, errs io.Writer) int {
	signal.Ignore(syscall.SIGPIPE) // a client may close the output before the input
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ownGroup()
	conn, err := net.Dial("unix", address) //nolint:gosec // G704: the socket that this process was started for
	if err != nil {
		_, _ = fmt.Fprintf(errs, "dragoman: %s is started by the client under `dragoman conformance --client`, while that runs: %v\n", RelayWord, err)
		return 1
	}
	defer func() { _ = conn.Close() }()
	r := &relay{conn: conn}
	go r.forward(in)
	go func() {
		for s := range signals {
			r.send(frameSignal, []byte(signalName(s)))
		}
	}()
	return r.execute(out, errs)
}

type relay struct {
	mu   sync.Mutex
	conn net.Conn
}

// send sends a frame. It fails only when execute ends the process.
func (r *relay) send(kind byte, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = writeFrames(r.conn, kind, data)
}

// forward sends the input and the end of it.
func (r *relay) forward(in io.Reader) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := in.Read(buffer)
		if n > 0 {
			r.send(frameInput, buffer[:n])
		}
		if err != nil {
			r.send(frameEnd, nil)
			return
		}
	}
}

// execute executes the received frames and returns the exit code.
func (r *relay) execute(out, errs io.Writer) int {
	said := bufio.NewReader(r.conn)
	for {
		kind, data, err := readFrame(said)
		if err != nil {
			return 1 // the process that judges has ended
		}
		switch kind {
		case frameOutput:
			_, _ = out.Write(data) // the client may have closed it
		case frameErrors:
			_, _ = errs.Write(data)
		case frameLeave:
			r.send(frameBye, nil)
			if len(data) == 0 {
				return 0
			}
			return int(data[0])
		}
	}
}

func signalName(s os.Signal) string {
	switch s {
	case syscall.SIGTERM:
		return "SIGTERM"
	case os.Interrupt:
		return "SIGINT"
	case syscall.SIGHUP:
		return "SIGHUP"
	}
	return s.String()
}
