package mock

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"dragoman/conformance/peer"
)

// program starts a server for the client of the tests, with a fault.
type program []string

// running is a server that the client has started.
type running struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	said    sync.WaitGroup // the error output is read
	ended   chan struct{}
}

// Spawn implements peer.Spawner.
func (argv program) Spawn(_ context.Context, stderr func(string)) (peer.Lines, error) {
	r := &running{command: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{})}
	in, err := r.command.StdinPipe()
	out, err2 := r.command.StdoutPipe()
	errs, err3 := r.command.StderrPipe()
	if err = errors.Join(err, err2, err3, r.command.Start()); err != nil {
		return nil, err
	}
	r.in, r.out = in, bufio.NewReader(out)
	r.said.Go(func() {
		for lines := bufio.NewScanner(errs); lines.Scan(); stderr(lines.Text()) {
			if fault("stderr") && within("chatter") {
				os.Exit(1)
			}
		}
	})
	return r, nil
}

// Write implements peer.Lines.
func (r *running) Write(line []byte) error {
	m, _ := peer.ReadMessage(string(line))
	text, end := string(line), "\n"
	switch {
	case fault("empty"):
		end = "\n\n"
	case fault("indent") && m.Kind() == peer.IsNotification:
		text = strings.Replace(text, ",", ",\n", 1)
	case fault("array") && m.Kind() == peer.IsNotification:
		text = "[" + text + "]"
	case fault("latin") && m.Kind() == peer.IsNotification:
		text = strings.Replace(text, "}", `,"x":"`+"\xe4"+`"}`, 1)
	case fault("unended") && m.Method == "tools/call":
		end = ""
	case fault("responds") && m.Method == "tools/call":
		end = "\n" + `{"jsonrpc":"2.0","id":5,"result":{}}` + "\n"
	case fault("initialized") && m.Method == "notifications/initialized":
		return nil
	case fault("meta"):
		text = strings.Replace(text, peer.MetaCapabilities, "capabilities", 1)
	case fault("id-type") && m.Kind() == peer.IsResponse:
		text = strings.Replace(text, `"id":1,`, `"id":"1",`, 1)
	}
	_, err := io.WriteString(r.in, text+end)
	if end == "" {
		os.Exit(0)
	}
	return err
}

// ReadLine implements peer.Lines.
func (r *running) ReadLine() ([]byte, error) {
	line, err := r.out.ReadBytes('\n')
	return bytes.TrimRight(line, "\n"), err
}

// pause is the time between the steps of ending a server.
const pause = 5 * least

// Stop implements peer.Lines.
func (r *running) Stop() (end string, forced bool) {
	go func() {
		r.said.Wait()
		_ = r.command.Wait()
		close(r.ended)
	}()
	p := r.command.Process
	switch {
	case fault("kills"):
		_ = p.Kill()
	case fault("terminates"):
		_ = p.Signal(syscall.SIGTERM)
		r.gone(pause)
		_ = p.Kill()
	default:
		_ = r.in.Close()
		if fault("abandons") || !fault("hurries") && r.gone(pause) {
			break
		}
		if !fault("no-term") {
			_ = p.Signal(syscall.SIGTERM)
			r.gone(pause)
		}
		_ = p.Kill()
	}
	if fault("abandons") {
		os.Exit(0) // the process would be waited for
	}
	<-r.ended
	return "ended", false
}

func (r *running) gone(within time.Duration) bool {
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-r.ended:
		return true
	case <-late.C:
		return false
	}
}
