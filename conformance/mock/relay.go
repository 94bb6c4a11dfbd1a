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

// RelayWord is the word after which a mock server's command has the address of who judges.
const RelayWord = "conformance-mock"

// RelayCalled reports whether this process was started as a mock server by the client under test: `dragoman conformance-mock ADDRESS`.
func RelayCalled(args []string) bool { return len(args) == 3 && args[1] == RelayWord }

// Relay is a mock server as the client under test starts it. It decides nothing: what the client writes, the end of that and the
// signals that come are handed to the process that judges, at the Unix socket address; what that says is written to out and errs.
// It gives the code to exit with. What reads the input ends with the process.
func Relay(address string, in io.Reader, out, errs io.Writer) int {
	signal.Ignore(syscall.SIGPIPE) // a client may close what we write to before what we read
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
	go r.listen(in)
	go func() {
		for s := range signals {
			r.tell(frameSignal, []byte(signalName(s)))
		}
	}()
	return r.obey(out, errs)
}

type relay struct {
	mu   sync.Mutex
	conn net.Conn
}

// tell is not heard when nobody judges any more; then obey ends the process.
func (r *relay) tell(kind byte, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = writeFrames(r.conn, kind, data)
}

func (r *relay) listen(in io.Reader) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := in.Read(buffer)
		if n > 0 {
			r.tell(frameInput, buffer[:n])
		}
		if err != nil {
			r.tell(frameEnd, nil)
			return
		}
	}
}

// obey does what it is told, and gives the code to exit with.
func (r *relay) obey(out, errs io.Writer) int {
	said := bufio.NewReader(r.conn)
	for {
		kind, data, err := readFrame(said)
		if err != nil {
			return 1 // who judges is gone
		}
		switch kind {
		case frameOutput:
			_, _ = out.Write(data) // a client that reads no more is seen by what it does
		case frameErrors:
			_, _ = errs.Write(data)
		case frameLeave:
			r.tell(frameBye, nil)
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
